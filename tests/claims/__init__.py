"""Every number and statement of five documents, recomputed: `python -m tests.claims --write`."""
