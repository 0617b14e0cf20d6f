"""The documentation, and what writes it: a package, for `python -m docs.make`."""
