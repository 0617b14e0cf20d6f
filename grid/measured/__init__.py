"""What was measured: logs and step times, fits to them, records, and predictions to compare.

May be imported by `plots` and the rooms above it; does not know `ask`.
"""
