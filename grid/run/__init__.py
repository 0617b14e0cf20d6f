"""Execution: threads, a Dask cluster, lazy and virtual cubes, and what other processes need for
them. May be imported by `reduce`, `store` and everything above; imports `plan` and `spec`."""
