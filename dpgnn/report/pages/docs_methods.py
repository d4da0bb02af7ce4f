"""The hand-written pages that say how each method works here: which study leads to which."""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn.records.info import StudyInfo

PAGES = {
    "dpgnn": ("dp_gnn", "dp_mlp", "dp_mlp_smooth"),
    "drw": ("drw",),
    "dpar": ("dpar",),
    "caribou": ("caribou",),
    "gap": ("gap", "dpdgc", "lapgraph", "edgerand", "pertgraph"),
    "votes": ("votes", "dp_linear"),
}


def method_line(infos: Sequence[StudyInfo], up: str = "") -> str:
    """Links to the pages of the studies' papers and methods.

    Args:
        infos: the studies.
        up: from the page to the folder docs, such as "../".
    """
    papers = {info.paper for info in infos}
    methods = {entry.method for info in infos for entry in info.entries}
    names = [name for name, of in PAGES.items() if name in papers or methods & {*of}]
    links = [f"[{name}]({up}methods/{name}.md)" for name in names or PAGES]
    return f"How the methods work here, and what we changed: {' · '.join(links)}."
