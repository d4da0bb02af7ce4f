"""DRW: DP-SGD over disjoint random walks."""
