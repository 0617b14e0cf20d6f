"""`python -m benchmarks` in the root of the repository, with fleetcube installed."""
