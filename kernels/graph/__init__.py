"""Formulas as a graph: collected, read, bound to an array library, traced to operations.

May be imported by `calculus`, `engines` and the grid; imports laws and the physics.
"""
