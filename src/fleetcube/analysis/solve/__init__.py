"""Solve for the value of an input at which an output meets a target. Imported like `ask`: `scan`
gives the initial values, `bracket` narrows in on the target."""
