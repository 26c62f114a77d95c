"""Recipes for clusters: `train` as a Kubernetes Job (`kubernetes.yaml`), on Ray (`ray_train`)."""
