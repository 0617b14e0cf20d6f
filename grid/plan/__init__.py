"""How it is computed: formulas, dimensions, order of memory, tables, tiles; and one block of it.

May be imported by `run` and everything above; imports `spec`.
"""
