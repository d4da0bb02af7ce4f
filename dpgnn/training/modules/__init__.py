"""Clipped sums of a user's own module: how its gradients are made, and what is asked of it."""
