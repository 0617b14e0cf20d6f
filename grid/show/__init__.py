"""Words for people: tables, files of tables, and selectors of points as they are typed.

May be imported by `ask`, `measured`, `plots` and everything above.
"""
