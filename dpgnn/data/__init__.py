"""Raw files to graphs and splits, in numpy.

`graph.Graph` is validated once; `datasets.load` and `datasets.prepare` make one by name, `custom` from a
user's own files; `splits.make_split` draws training, validation and test nodes. `raw` finds and fetches raw
files; `files` has the project's own format, in memory or streamed.
"""
