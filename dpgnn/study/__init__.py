"""A study file: read, checked, expanded into runs, and driven by Snakemake.

`study.load_study` gives every run of a tier; `entries` applies `extends` and `sweep`, `tiers` chooses.
`workflow` answers what the Snakefile asks, `driver` starts Snakemake, `progress` says how far it is,
`sharing` versions it.
"""
