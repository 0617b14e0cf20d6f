"""Derivatives of formulas; may be imported by `engines` and the grid; imports `graph`."""
