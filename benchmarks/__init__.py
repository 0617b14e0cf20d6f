"""What is measured: speed against the memory's limit, peers, start-up, memory, the GPU.

`python -m benchmarks` from the root of the repository, where fleetcube is installed.
"""
