"""Tests of privacy claims on the code that runs, over neighbouring graphs.

`entry_audit.audit` tests an entry's claim by many runs in two worlds, `one_run_audit` bounds epsilon from
one. `tests/exhaustive` compares what enters each draw of noise over all neighbours of a small graph.
"""
