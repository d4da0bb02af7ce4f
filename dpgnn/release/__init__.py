"""A private model as a value: fitted on a graph in memory, asked, saved as a bundle, checked.

`fit` makes a `Model` by the plan and the code of a run of a study; `offers` and `advice` say which to make.
"""
