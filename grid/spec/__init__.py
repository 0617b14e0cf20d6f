"""Input of a sweep: axes, designs, distributions and scenarios, as numbers in SI.

Reads TOML tables and Python values, and refuses bad ones. Every other package may import it; it
imports only the catalog and `errors`.
"""
