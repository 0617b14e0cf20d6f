"""For people: tables, files of tables, selectors of points as they are typed, cubes in other units.

May be imported by `ask`, `measured`, `plots` and everything above.
"""
