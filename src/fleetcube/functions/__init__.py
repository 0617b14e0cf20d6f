"""Quantities in one call, and as functions for other programs: JAX, numba, JavaScript."""
