"""Readers of published tables, one for each kind of source. Imported by `measured` only."""
