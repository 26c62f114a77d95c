"""Recipes for clusters: `train` as a Kubernetes Job (`kubernetes.yaml`) and on Ray (`ray_train`)."""
