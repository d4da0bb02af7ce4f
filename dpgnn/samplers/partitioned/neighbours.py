"""The nodes that each node of a graph reads, as two files, for answers on a graph on disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dpgnn.core.storage import DamagedFileError, read_json, sha256_json, write_json
from dpgnn.data.stored import FileArray, StoredLists
from dpgnn.samplers.partitioned.adjacency import induce
from dpgnn.samplers.partitioned.sample import Place, Setting, digest, rule_of, unfinished

MANIFEST = "lists.json"


def lists_for(place: Place, *, mirrored: bool) -> StoredLists:
    """The lists of all nodes in `place.out`, made if missing.

    A node's list has the sources of its incoming arcs, in the order of the graph's arcs, or ascending if arcs
    are mirrored; without loops.

    Args:
        place: partitions of the graph, the folder of the lists, the scheduler, and the setting.
        mirrored: add the other direction of each arc, each arc once; for directed graphs.

    Returns:
        the lists, as sensitive as the graph.

    Raises:
        DamagedFileError: the lists are of another graph or setting, or a partition is another one.
        BusyError: another process makes them.
        OSError: the folder cannot be written, or the disk is full.
    """
    sha = str(place.partitions.graph["content_sha256"])
    found = kept_lists(place.out, sha, place.setting, mirrored=mirrored)
    if found is None:
        _make(place, mirrored, _decided(sha, place.setting, mirrored))
        found = kept_lists(place.out, sha, place.setting, mirrored=mirrored)
    assert found is not None
    return found


def kept_lists(
    folder: Path, graph_sha256: str, setting: Setting | None, *, mirrored: bool
) -> StoredLists | None:
    """The lists in a folder; None if there are none.

    Args:
        folder: of `lists_for`.
        graph_sha256: expected content hash of the graph.
        setting, mirrored: as for `lists_for`.

    Raises:
        DamagedFileError: the lists are of another graph or setting, or incomplete.
    """
    if not (folder / MANIFEST).exists():
        return None
    stated = read_json(folder / MANIFEST)
    if stated["of"] != _decided(graph_sha256, setting, mirrored):
        raise DamagedFileError(
            f"{folder} must hold lists of this graph and setting, got others; delete it and rerun"
        )
    pointer, source = (FileArray(folder / f"{name}.npy") for name in ("pointer", "source"))
    sizes = [len(pointer), len(source)]
    if sizes != stated["sizes"]:
        raise DamagedFileError(
            f"{folder} must hold {stated['sizes']} numbers, got {sizes}; delete it and rerun"
        )
    return StoredLists(pointer=pointer, source=source)


def _decided(graph_sha256: str, setting: Setting | None, mirrored: bool) -> str:
    codes = None if setting is None else digest(setting.codes)
    return sha256_json([graph_sha256, codes, rule_of(setting), mirrored])


def _make(place: Place, mirrored: bool, decided: str) -> None:
    with unfinished(place, decided) as job:
        job.write_masks({"place": np.arange(place.num_nodes, dtype=np.int32)})
        induce(job, place.partitions, place.num_nodes, mirrored=mirrored, scheduler=place.scheduler)
        for name, kept in (("pointer", "pointer"), ("sources", "source")):
            if (job.work / f"{name}.npy").exists():  # otherwise it was moved before a kill
                os.replace(job.work / f"{name}.npy", job.out / f"{kept}.npy")
        sizes = [len(FileArray(job.out / f"{name}.npy")) for name in ("pointer", "source")]
        write_json(job.out / MANIFEST, {"of": decided, "sizes": sizes})
