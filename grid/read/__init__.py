"""Cubes read without being stored: evaluated on slicing, interpolated between points. May be
imported by the packages above; does not import `reduce` or `store`."""
