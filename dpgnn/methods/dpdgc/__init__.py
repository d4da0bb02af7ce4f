"""DPDGC: a decoupled network over a private embedding of the rows of the adjacency matrix."""
