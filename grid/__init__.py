"""The engine: axes, sweeps, plans, execution, cubes."""
