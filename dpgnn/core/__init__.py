"""What every package stands on: checks, configuration, files, locks, seeds.

`checks`: one form of error. `config`: mappings read strictly into dataclasses, and their schema. `storage`:
atomic files, Parquet with checksums, checkpoints. `paths`, `locks`: where results lie and who writes them.
`seeds`, `randomness`: named streams. `code_hash`: what code decides a result.
"""
