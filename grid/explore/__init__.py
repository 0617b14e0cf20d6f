"""A local page that shows slices of a cube: what it shows, how it is served, the page itself."""
