"""TODO io."""
