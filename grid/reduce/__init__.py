"""Sweeps reduced to sums, extremes and quantiles, not stored; does not import `store`."""
