"""Private models: fit on a graph in memory, predict, save as a bundle, verify.

`fit` makes a `Model` by the plan and code of a study's runs; `offers` and `advice` help to choose.
"""
