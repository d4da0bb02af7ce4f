"""DPAR: private approximate personalised PageRank, then training on its rows."""
