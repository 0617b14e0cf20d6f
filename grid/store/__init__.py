"""Cubes on a disk or in a store: written, resumed, appended to, opened, verified. May be imported
by the packages above; does not import `reduce` or `read`. `places`: storage."""
