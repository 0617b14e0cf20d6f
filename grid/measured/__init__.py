"""What was measured: logs and step times, fits to them, records, predictions held against them.

May be imported by `plots` and what is above; does not know `ask`.
"""
