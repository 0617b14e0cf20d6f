"""Plans: formulas, dimensions, memory order, tables, tiles; and the evaluation of one block. May be
imported by `run` and everything above; imports `spec`."""
