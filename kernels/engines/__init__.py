"""Evaluation of formulas on arrays: NumPy, numba, JAX; generated code, and its cache.

May be imported by the grid only; imports `graph` and `calculus`.
"""
