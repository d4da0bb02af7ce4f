"""Votes: noisy sums of votes on a public board, read by each node with its own list."""
