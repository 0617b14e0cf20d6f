"""The laws: plain formulas of numbers and arrays, each with its source."""
