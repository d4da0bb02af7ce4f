"""Which works a study must cite: data/citations.bib, keyed by data/sources.csv and by method names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpgnn.datasets import OWN, entry_of
from dpgnn.datasets.sources import data_folder, source_of

ENTRY = re.compile(r"^@\w+\{(?P<key>[\w-]+),.*?^\}\n", re.MULTILINE | re.DOTALL)
METHODS = re.compile(r"method:([\w-]+)")


def read_bibliography() -> dict[str, str]:
    """The text of each entry of data/citations.bib by key."""
    text = (data_folder() / "citations.bib").read_text(encoding="utf-8")
    return {match["key"]: match[0] for match in ENTRY.finditer(text)}


def bibtex_of(names: Sequence[str], methods: Sequence[str]) -> str:
    """BibTeX for data sets and methods, each work once, after a comment that says who uses it.

    Args:
        names: data sets; an own graph needs no citation.
        methods: names of methods; one without an entry is named in a comment.
    """
    entries = read_bibliography()
    users: dict[str, list[str]] = {}
    for name in names:
        if entry_of(name) is not OWN:
            for key in source_of(name).citation.split():
                users.setdefault(key, []).append(f"data set {name}")
    without = []
    for method in methods:
        keys = [key for key, text in entries.items() if method in METHODS.findall(text)]
        for key in keys:
            users.setdefault(key, []).append(f"method {method}")
        if not keys:
            without.append(method)
    parts = [f"% {', '.join(who)}\n{entries[key]}" for key, who in sorted(users.items())]
    if without:
        parts.append(f"% no citation needed or known: {', '.join(without)}\n")
    return "\n".join(parts)
