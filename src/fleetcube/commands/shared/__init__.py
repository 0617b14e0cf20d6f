"""What several commands share: options, tables, remarks, and reading a spec with selectors."""
