"""Execution: threads, a Dask cluster, lazy arrays, and what other processes need for it. May be
imported by `reduce`, `store`, `read` and everything above; imports `plan` and `spec`."""
