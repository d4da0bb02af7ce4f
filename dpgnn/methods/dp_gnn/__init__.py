"""DP-GNN: DP-SGD over sampled subgraphs with bounded occurrence."""
