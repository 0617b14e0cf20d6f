"""What is asked: axes, designs, distributions and scenarios, as numbers in SI.

Reads TOML tables and Python values, and refuses bad ones. Every other room may import it; it
imports the catalog and `errors` only.
"""
