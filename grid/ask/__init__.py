"""Questions to a sweep: slopes, levers, uncertainty, optima, comparisons, simulations.

May be imported by `plots` and what is above; does not know `measured`.
"""
