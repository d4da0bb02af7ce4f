"""The table of methods; each has options, plan, fit and predict.

`get(name)` gives a `base.Method` and loads its module only then. `dpgnn.methods()` lists what the methods
offer, see `dpgnn.release.offers.offers`. `shared` has code of several methods.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from types import ModuleType
from typing import Any

from dpgnn.core.checks import fail, require
from dpgnn.methods.base import Method

TABLE: dict[str, str] = {
    "mlp": "dpgnn.methods.mlp",
    "gcn": "dpgnn.methods.gcn",
    "pyg": "dpgnn.methods.pyg",
    "caribou": "dpgnn.methods.caribou.method",
    "dp_gnn": "dpgnn.methods.dp_gnn.method",
    "dp_linear": "dpgnn.methods.dp_linear",
    "dp_mlp": "dpgnn.methods.dp_mlp",
    "dp_mlp_smooth": "dpgnn.methods.dp_mlp_smooth",
    "dpdgc": "dpgnn.methods.dpdgc.method",
    "edgerand": "dpgnn.methods.edgerand",
    "gap": "dpgnn.methods.gap.method",
    "heterpoisson": "dpgnn.methods.heterpoisson.method",
    "lapgraph": "dpgnn.methods.lapgraph",
    "lpgnet": "dpgnn.methods.lpgnet.method",
    "progap": "dpgnn.methods.progap.method",
    "pertgraph": "dpgnn.methods.pertgraph.method",
    "dpar": "dpgnn.methods.dpar.method",
    "drw": "dpgnn.methods.drw.method",
    "votes": "dpgnn.methods.votes.method",
    "selected": "dpgnn.methods.selected.method",
}


def get(name: str) -> Method:
    """The method with a name or title.

    Args:
        name: name in the table, or title such as DP-GNN.

    Raises:
        ValueError: unknown; suggests similar names and lists all. Or its module has no METHOD of this name.
    """
    name = name if name in TABLE else name_of(name)
    method = getattr(importlib.import_module(TABLE[name]), "METHOD", None)
    where = f"METHOD of {TABLE[name]}"
    if not isinstance(method, Method):
        fail(where, "be a Method", type(method).__name__, "see docs/add_a_method.md")
    remedy = "its line in methods.TABLE and its name must be the same"
    require(method.name == name, f"name of {where}", f"be {name}", method.name, remedy)
    return method


def name_of(text: str) -> str:
    """The table's name of a method given in any spelling: DP-GNN, dpgnn and dp_gnn are the same.

    Args:
        text: name or title in any spelling.

    Raises:
        ValueError: no such method; suggests similar names and lists all.
    """
    plain = {_letters(name): name for name in TABLE}
    found = plain.get(_letters(text))
    if found is None:  # titles in tables, which are in the methods' modules
        titles = {_letters(get(name).title): name for name in TABLE}
        found = titles.get(_letters(text))
    if found is not None:
        return found
    near = difflib.get_close_matches(_letters(text), plain, n=2)
    asked = f"; did you mean {' or '.join(plain[name] for name in near)}?" if near else ""
    raise ValueError(f"unknown method {text!r}; known: {', '.join(sorted(TABLE))}{asked}")


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


class _Callable(ModuleType):
    """This module: `offers` of the package, which knows the records, answers its calls."""

    def __call__(self, *names: str, unit: str | None = None) -> Any:
        return sys.modules["dpgnn"].offers(names, unit)


sys.modules[__name__].__class__ = _Callable
