"""Roles of recomputation: the option whose choices may be modules by their names."""

RECOMPUTED = "recompute"
