"""Measurements: logs and step times, fits to them, records, and predictions to compare. May be
imported by `plots` and the packages above it; does not import `ask`."""
