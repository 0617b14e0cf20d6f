"""A page in one file that computes without Python: a spec's formulas written as JavaScript."""
