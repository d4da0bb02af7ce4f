"""The command line: one file for each stage of `dpgnn STAGE`, with `add_parser` and `main`.

A stage parses, calls one function and writes one file; what is slow to import is imported when it runs.
"""
