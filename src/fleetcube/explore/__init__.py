"""A local page that shows slices of a cube: its data, the server, the page itself."""
