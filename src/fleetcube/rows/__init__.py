"""Rows of scenarios: frames in, the same frames with added outputs out. `frames` knows the
libraries, `columns` reads cells, `groups` groups rows that share formulas."""
