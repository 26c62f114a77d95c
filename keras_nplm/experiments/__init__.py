"""TODO experiments."""
