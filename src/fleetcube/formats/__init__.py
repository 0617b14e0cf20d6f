"""Files of the field: read into our own words, and written back."""
