"""Engines and generated code; imported by the grid only, and imports `graph` and `calculus`."""
