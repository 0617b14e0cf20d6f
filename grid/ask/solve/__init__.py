"""The value of an input at which an output meets a target.

Imported as `ask` is: `scan` says where to look first, `bracket` closes in on the target.
"""
