"""Example specs: `fleetcube run example:h100`."""
