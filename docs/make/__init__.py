"""What writes pages and records from the code and its data: `python -m docs.make`.

A page is written whole (claims, laws) or between two marks (accuracy, calibrate, storage); in the
README, and in the pages that are run, what is out of date is replaced. The tests hold all of it to
the code.
"""
