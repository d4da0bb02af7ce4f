"""GAP: noisy aggregations of bounded rows, then a head on them."""
