"""TODO language_model."""
