"""Pictures, pages and explanations for people."""
