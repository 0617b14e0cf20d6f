"""Writes pages and records from the code and its data: `python -m docs.make`.

A page is generated whole (claims, laws) or between two marks (accuracy, calibrate, storage); in the
README and in executed pages, outdated text is replaced. Tests compare all of it with the code.
"""
