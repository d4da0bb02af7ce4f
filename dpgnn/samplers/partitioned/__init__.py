"""Samplers over partitions of a graph: the bytes of one machine, whatever the number of partitions.

Dask only schedules (`scheduler`); what is computed is our own kernels. Tasks read and write files in one
folder that all workers see: partitions of the arcs (`arcs`), arcs on their way to the task that needs
them (`exchange`), and parts of the data set that comes out (`parts`). `sample` is the driver.
"""
