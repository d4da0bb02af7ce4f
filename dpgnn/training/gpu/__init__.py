"""Clipped sums on a GPU: everything stays there, and steps of equal shape are one replayed graph.

`steps` is the entry. `shapes` says on the host how large a step is, `layout` finds on the device which rows
it reads, `features` gathers them, `norms` measures and bounds gradients, `kernels` fuses that where Triton is
there, `graphs` captures it, and `noise` draws on the host, ahead of time, what hides the sum.
"""
