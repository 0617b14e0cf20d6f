"""Derivatives of formulas: dual numbers, slopes of what is not smooth, quantities made from them.

May be imported by `engines` and the grid; imports `graph`.
"""
