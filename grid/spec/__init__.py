"""Input of a sweep: axes, designs, distributions and scenarios, as numbers in SI.

Refuses bad values. Every other package may import it; it imports only `errors`, units and the
graph. Labels and texts are read by the application that a graph names (`application.py`).
"""
