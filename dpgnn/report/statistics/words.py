"""What a guarantee does not protect, in words; the counterpart of `claims.in_words`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.accountants.claims import Claim
from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell

NOT_PROTECTED = {
    "node-features": (
        "who is joined to whom: every edge is taken as public",
        "that a node is in the graph",
    ),
    "node-record": (
        "that a neighbour's record still mentions the node: other people's edge lists are their own",
        "anything other nodes' records reveal about the node",
    ),
    "node-bounded": ("nodes of graphs with a degree above the declared bound",),
    "node": ("facts about the node that follow from the records of others",),
    "edge": ("features and labels: they are taken as public", "that a node is in the graph"),
}
PROTECTED = {
    "node-features": "one node's features and label",
    "node-record": "one node's record",
    "node-bounded": "one node of bounded degree, with its edges",
    "node": "one node with its edges",
    "edge": "one edge",
}
NO_GUARANTEE = "Nothing is protected: this entry trains on the data without any guarantee."
NOT_COVERED = "the answers themselves: prediction reads private features or edges again, uncounted"
OWN_RECORD = (
    "the answer to a node itself, which reads its own record: it may be shown to that node alone"
)


@dataclass(frozen=True, kw_only=True)
class Protection:
    """What the runs of one entry protect, for the data sets with the same protection.

    Attributes:
        entry, label, mode: of the entry.
        where: data sets and settings.
        example: the claims in words at the largest epsilon, with where that is.
        claims: those claims in words, each as its first sentence and the rest.
        open: what is not protected.
        caveats: (id, title, whether it breaks the stated guarantee).
    """

    entry: str
    label: str
    mode: str
    where: tuple[str, ...]
    example: str
    claims: tuple[tuple[str, tuple[str, ...]], ...]
    open: tuple[str, ...]
    caveats: tuple[tuple[str, str, bool], ...]


def setting_words(split: Mapping[str, Any]) -> str:
    """How a setting draws its splits, in words."""
    train, val = (f"{100 * split[name]:g} %" for name in ("train_fraction", "val_fraction"))
    fractions = (
        f"{train} of the labelled nodes for training, {val} for validation, the rest for test"
    )
    counts = f"{split['num_per_class']} training nodes of each class"
    kinds = {
        "public": "the split its publishers made",
        "random": f"{fractions}, at random",
        "coins": f"{fractions}, each node by its own coin",
        "clustered": f"{fractions}, whole communities together",
        "per_class": (
            f"{counts}, {split['num_val']} validation nodes, {split['num_test'] or 'all other'} test nodes"
        ),
        "caribou": "CARIBOU's fixed split: 70 % training, 10 % validation, 20 % test",
        "membership": f"{counts}, the target half of a membership attack",
    }
    words = [kinds.get(split["kind"], str(split["kind"]))]
    words.append(
        "edges between the parts are dropped" if split["inductive"] else "all edges are kept"
    )
    if split.get("min_class_size"):
        words.append(f"classes below {split['min_class_size']} nodes leave the graph")
    if split.get("drop_isolated"):
        words.append("nodes without an edge leave the graph")
    if split.get("max_degree"):
        words.append(f"edges are cut down to {split['max_degree']} a node by a fixed public rule")
    return "; ".join(words)


def protections(cells: Sequence[Cell]) -> list[Protection]:
    """The protection of every entry of a study; cells with the same kind of claim are grouped."""
    alike = grouped(cells, lambda cell: (cell.entry, _kind(cell)))
    return [_protection(members) for members in alike.values()]


def _kind(cell: Cell) -> str:
    """What two cells must share to be described once: the whole claims except epsilon and delta."""
    parts = [
        f"{c.privacy_unit}|{c.relation}|{c.degree_bound}|{c.status}|{c.caveats}|{c.assumed_public}"
        f"|{c.released}|{c.selection}|{c.arithmetic}"
        for c in cell.claims
    ]
    return " & ".join([*parts, cell.answers])


def _protection(members: Sequence[Cell]) -> Protection:
    example = max(members, key=lambda cell: float(cell.epsilon))
    where = tuple(dict.fromkeys(f"{cell.dataset} ({cell.setting})" for cell in members))
    claim = example.claim
    return Protection(
        entry=example.entry,
        label=example.label,
        mode=example.mode,
        where=where,
        example=f"{example.dataset}, ε = {example.epsilon}" if claim else "",
        claims=tuple(_sentences(text) for text in (example.words if claim else (NO_GUARANTEE,))),
        open=_open(claim, example),
        caveats=_caveats(example),
    )


def _sentences(text: str) -> tuple[str, tuple[str, ...]]:
    """A text's first sentence and the rest; a sentence ends before a space and a capital letter."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z])", text)
    return first, tuple(others)


def _open(claim: Claim | None, cell: Cell) -> tuple[str, ...]:
    if claim is None:
        return ()
    found = list(NOT_PROTECTED[claim.privacy_unit])
    if claim.assumed_public:
        found.append(f"what is taken as public: {', '.join(claim.assumed_public)}")
    if cell.answers == "own-record":
        found.append(OWN_RECORD)
    if cell.answers == "none":
        note = str(cell.runs[0].record.prediction.get("note", ""))
        found.append(f"{NOT_COVERED}{f' ({note})' if note else ''}")
    return tuple(found)


def _caveats(cell: Cell) -> tuple[tuple[str, str, bool], ...]:
    names = dict.fromkeys(name for claim in cell.claims for name in claim.caveats)
    return tuple((name, CAVEATS[name].title, CAVEATS[name].voids) for name in names)
