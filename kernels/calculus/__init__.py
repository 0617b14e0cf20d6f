"""Derivatives of formulas: dual numbers, slopes between whole numbers, derivatives as quantities.

May be imported by `engines` and the grid; imports `graph`.
"""
