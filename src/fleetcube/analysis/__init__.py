"""Queries of a sweep: slopes, levers, uncertainty, optima, comparisons, simulations. May be
imported by `plots` and the packages above it; does not import `measured`."""
