"""What writes pages and records from the code and its data: `python -m docs.make`.

A page is written whole (claims, laws) or between two marks (accuracy, calibrate, storage); in the
README, and in the pages that are run, outdated text is replaced. Tests compare all of it with the
code.
"""
