"""The value of an input at which an output meets a target.

Imported as `ask` is; `bracket` finds roots, `scan` the steps of whole numbers.
"""
