"""Where a cube lies: a folder, an object store, an Icechunk repository.

Imported by `store` only. Each is one class with the operations of `place.Place`.
"""
