"""fleetcube."""
