"""Foundations of all packages: checks, configuration, files, locks, seeds.

`checks`: argument checks with one error form. `config`: strict reading of mappings into dataclasses, and
their schema. `storage`: atomic files, Parquet with checksums, checkpoints. `paths`, `locks`: the layout of
results, and exclusive access. `seeds`, `randomness`: named streams. `code_hash`: the code that decides a
result.
"""
