"""Clipped sums on a GPU: all data stays there, and steps of equal shape replay one graph.

`steps` is the entry. `shapes` computes the size of a step on the host, `layout` finds on the device which
rows it reads, `features` gathers them, `norms` computes norms and factors, `kernels` fuses these operations
if Triton is installed, `graphs` captures them, and `noise` draws noise on the host ahead of time.
"""
