"""Scenarios of training jobs: labels of records, texts and phases, as values of the engine."""
