"""Rows of scenarios: frames in, the same frames out with outputs beside.

`frames` knows the libraries, `columns` reads cells, `groups` gathers rows that share formulas.
"""
