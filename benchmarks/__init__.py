"""Benchmarks: speed against the memory limit, peers, start-up, memory, the GPU.

Run `python -m benchmarks` in the root of the repository, with fleetcube installed.
"""
