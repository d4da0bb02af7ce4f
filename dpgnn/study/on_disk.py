"""The graph of a run with features and arcs on disk, as copies in the run's work folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dpgnn.core import locks
from dpgnn.core.storage import explain_os_errors
from dpgnn.data.files.stored_graph import StoredGraph, open_graph
from dpgnn.data.splits import Split
from dpgnn.data.stored import StoredLists


def stored_graph(folder: Path, meta: Mapping[str, Any], split: Split, work: Path) -> StoredGraph:
    """The graph with features and arcs on disk, below WORK/stored.

    Args:
        folder: the graph's.
        meta: its graph.json.
        split: decides which arcs are kept.
        work: folder of the copies; as sensitive as the graph.

    Raises:
        ValueError, DamagedFileError, BusyError, OSError: as `open_graph`.
    """
    place = place_of(work, meta)
    lock = place / "making.lock"  # of runs and of ranks of a run

    @cache
    def lists(mirrored: bool) -> StoredLists:
        with explain_os_errors(place), locks.one_at_a_time(lock):
            return _lists(folder, meta, split, work, mirrored)

    with explain_os_errors(place), locks.one_at_a_time(lock):
        return open_graph(folder, place / "features", lists)


def place_of(work: Path, meta: Mapping[str, Any]) -> Path:
    """The folder of a graph's copies and of other files that its runs keep on disk."""
    return work / "stored" / str(meta["content_sha256"])[:16]


def _lists(
    folder: Path, meta: Mapping[str, Any], split: Split, work: Path, mirrored: bool
) -> StoredLists:
    """Lists of the split's setting; lists of all arcs are shared by all splits."""
    from dpgnn.methods.partitioned import setting_of
    from dpgnn.samplers.partitioned.arcs import partitions_for
    from dpgnn.samplers.partitioned.neighbours import kept_lists, lists_for
    from dpgnn.samplers.partitioned.sample import Place, Setting, digest
    from dpgnn.samplers.partitioned.scheduler import InTurn

    codes = setting_of(split, meta["num_nodes"])
    setting = None if codes is None else Setting(codes=codes[0], inductive=codes[1])
    kind = "mirrored" if mirrored else "stated"
    own = "" if setting is None else f"-{digest(setting.codes)[:16]}-{int(setting.inductive)}"
    sha = str(meta["content_sha256"])
    out = place_of(work, meta) / f"lists-{kind}{own}"
    found = kept_lists(out, sha, setting, mirrored=mirrored)
    if found is not None:
        return found
    cut = partitions_for(folder, meta, 1, scheduler=InTurn(), kept=work / "partitions")
    made = Place(partitions=cut, out=out, scheduler=InTurn(), setting=setting)
    return lists_for(made, mirrored=mirrored)
