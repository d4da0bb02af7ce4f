"""Clipped sums for a user's module: how gradients are computed, and what the module must satisfy."""
