"""The graph of formulas; imported by `calculus`, `engines`, the grid; imports laws and physics."""
