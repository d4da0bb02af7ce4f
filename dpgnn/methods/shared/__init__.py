"""What several methods use: DP-SGD plans, heads, noisy aggregation, noisy graphs."""
