"""The command line: one file for each stage of `dpgnn STAGE`, with `add_parser` and `main`.

A stage parses, calls one function and writes one file; slow imports are made when it runs.
"""
