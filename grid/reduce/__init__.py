"""Sweeps reduced to sums, winners, quantiles, fronts, crossings, without storing the grid. May be
imported by `ask` and everything above; does not import `store` or `read`."""
