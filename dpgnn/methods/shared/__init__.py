"""Code of several methods: DP-SGD plans, heads, noisy aggregation, noisy graphs."""
