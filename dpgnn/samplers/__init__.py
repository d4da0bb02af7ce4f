"""Samplers: bounded degrees, subgraphs of roots, walks, diffusion rows, batches.

Every sampler states in one `Promise` how many subgraphs a node can enter and how many roots change
between neighbouring graphs; training and accountants read it from there.
"""
