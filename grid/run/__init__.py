"""Who computes it: threads, a Dask cluster, lazy arrays; what another process needs for it.

May be imported by `reduce`, `store`, `read` and everything above; imports `plan` and `spec`.
"""
