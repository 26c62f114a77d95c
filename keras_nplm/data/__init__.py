"""TODO data."""
