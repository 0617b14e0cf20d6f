"""Questions to a sweep: slopes, levers, uncertainty, optima, comparisons, simulations.

May be imported by `plots` and the rooms above it; does not know `measured`.
"""
