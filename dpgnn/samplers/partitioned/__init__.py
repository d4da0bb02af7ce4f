"""Samplers over partitions of a graph, with the same bytes as on one machine for any number of partitions.

Dask only schedules (`scheduler`); the computation uses our own kernels. Tasks read and write files in a
folder that all workers share: partitions of the arcs (`arcs`), arcs in exchange between tasks (`exchange`),
and parts of the resulting data set (`parts`). `sample` is the driver.
"""
