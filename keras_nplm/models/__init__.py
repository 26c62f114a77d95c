"""Language models: everything that answers `log_prob`, the network and the count-based models."""
