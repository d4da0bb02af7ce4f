"""Citations of data sets and methods, from data/citations.bib and data/papers/methods.bib."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpgnn.core.checks import one_of
from dpgnn.data.datasets import OWN, entry_of
from dpgnn.data.raw.sources import data_folder, source_of

ENTRY = re.compile(r"^@\w+\{(?P<key>[\w-]+),.*?^\}\n", re.MULTILINE | re.DOTALL)
FILES = ("citations.bib", "papers/methods.bib")


def read_bibliography() -> dict[str, str]:
    """The text of each entry of both files by key."""
    texts = [(data_folder() / name).read_text(encoding="utf-8") for name in FILES]
    return {match["key"]: match[0] for text in texts for match in ENTRY.finditer(text)}


def bibtex_of(names: Sequence[str], methods: Mapping[str, str | None]) -> str:
    """BibTeX for data sets and methods, each work once, after a comment on what uses it.

    Args:
        names: data sets; an own graph needs no citation.
        methods: name of a method -> its key, or None for a textbook baseline.

    Raises:
        ValueError: a key is in neither file; lists those that are.
    """
    entries = read_bibliography()
    users: dict[str, list[str]] = {}
    for name in names:
        if entry_of(name) is not OWN:
            for key in source_of(name).citation.split():
                users.setdefault(one_of("citation", key, entries), []).append(f"data set {name}")
    for method, work in methods.items():
        if work is not None:
            users.setdefault(one_of("citation", work, entries), []).append(f"method {method}")
    parts = [f"% {', '.join(who)}\n{entries[key]}" for key, who in sorted(users.items())]
    without = [method for method, work in methods.items() if work is None]
    if without:
        parts.append(f"% no citation needed: {', '.join(without)}\n")
    return "\n".join(parts)
