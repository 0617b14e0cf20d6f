"""Laws: plain formulas of arrays, each with its source."""
