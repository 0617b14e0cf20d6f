"""What evaluates formulas on arrays: NumPy, numba, JAX; code that is generated, and its cache.

May be imported by the grid only; imports `graph` and `calculus`.
"""
