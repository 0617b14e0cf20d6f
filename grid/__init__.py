"""Where it is computed: axes, sweeps, plans, execution, cubes."""
