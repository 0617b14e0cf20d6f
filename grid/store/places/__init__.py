"""Storage locations: a folder, an object store, an Icechunk repository. Imported only by `store`.
Each is one class with the operations of `place.Place`."""
