"""Records of runs, and archives of them.

`schema.Record` is record.json; `archive` packs a study's records into one Parquet file; `frame` and `cells`
give the tables that reports are made from.
"""
