"""dpgnn: differentially private graph learning, reproduced, made sound and compared.

A program may build on these names; the rest of the package may change:

- `fit` trains a private `Model` on a PyG `Data`; `account` computes its cost, `audit` tests its claim.
  `Model.save` writes a bundle, `load` reads it.
- `advise` says which methods a graph allows, from public numbers alone.
- `methods()`, or `offers`: what methods there are; `methods.get(name)` and its `plan`, `fit`, `predict`;
  `Entry`, `Fitted`.
- `datasets`: `datasets.load` gives a `Graph`, `datasets.prepare` writes one; `read_graph` reads it again.
- `load_study`: a study file, checked; `read_record`: what a run states of itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpgnn.core.version import VERSION as __version__

if TYPE_CHECKING:
    from dpgnn import methods
    from dpgnn.data import datasets
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry, Fitted
    from dpgnn.records.schema import read_record
    from dpgnn.release.advice import advise
    from dpgnn.release.fit import account, audit, fit
    from dpgnn.release.load import load
    from dpgnn.release.model import Model
    from dpgnn.release.offers import offers
    from dpgnn.study.study import load_study

__all__ = [
    "Entry", "Fitted", "Graph", "Model", "__version__", "account", "advise", "audit", "datasets",
    "fit", "load", "load_study", "methods", "offers", "read_graph", "read_record",
]  # fmt: skip

# name -> module; loaded when asked for, so that `import dpgnn` takes milliseconds
_MODULES = {"datasets": "dpgnn.data.datasets", "methods": "dpgnn.methods"}
_HOMES = {
    "Entry": "dpgnn.methods.base",
    "Fitted": "dpgnn.methods.base",
    "Graph": "dpgnn.data.graph",
    "Model": "dpgnn.release.model",
    "account": "dpgnn.release.fit",
    "advise": "dpgnn.release.advice",
    "audit": "dpgnn.release.fit",
    "fit": "dpgnn.release.fit",
    "load": "dpgnn.release.load",
    "load_study": "dpgnn.study.study",
    "offers": "dpgnn.release.offers",
    "read_graph": "dpgnn.data.files.graph_files",
    "read_record": "dpgnn.records.schema",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpgnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
