"""One sample over partitions, from start to finish: the driver."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn.core import locks
from dpgnn.core.checks import at_least, require
from dpgnn.core.storage import explain_os_errors, sha256_json
from dpgnn.samplers.hashing import draw_key
from dpgnn.samplers.lists import node_mask, present_mask
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.partitioned import lists
from dpgnn.samplers.partitioned.adjacency import induce
from dpgnn.samplers.partitioned.arcs import Partitions
from dpgnn.samplers.partitioned.job import Job
from dpgnn.samplers.partitioned.parts import PartFacts, finish, read_manifest
from dpgnn.samplers.partitioned.scheduler import Scheduler
from dpgnn.samplers.partitioned.walks import sample_rows, sample_walks, write_members
from dpgnn.samplers.stable import Stable
from dpgnn.samplers.walks import Walks

WIDTH = 1 << 20  # number of nodes of a range, and so of a part


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The arcs that a split keeps.

    Attributes:
        codes: int8, shape (num_nodes,), from `Split.part_of`.
        inductive: drop arcs between parts; otherwise only arcs of removed nodes (-2).
    """

    codes: np.ndarray
    inductive: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Inputs, output folder and scheduler of a sample.

    Attributes:
        partitions: of the graph.
        out: folder of the data set; previous content is replaced at the end.
        scheduler: runs the tasks.
        width: number of nodes of a range; a part of the data set is one range, so the files do not depend on
            the number of partitions.
        setting: None keeps all arcs.
    """

    partitions: Partitions
    out: Path
    scheduler: Scheduler
    width: int = WIDTH
    setting: Setting | None = None

    @property
    def num_nodes(self) -> int:
        """Size of the id universe."""
        return int(self.partitions.graph["num_nodes"])


def sample_trees(
    place: Place,
    sampler: OwnList | Stable,
    train_idx: np.ndarray,
    rng: np.random.Generator,
    *,
    present: np.ndarray | None = None,
) -> dict[str, Any]:
    """A data set of kind `subgraphs`: the rows of `sampler.sample(...).to_table()`.

    Guarantee: the subgraphs are bit for bit those of `sampler.sample`, so its promise holds; they and their
    statistics are as sensitive as the edges.

    Args:
        place: partitions, folder and scheduler.
        sampler: own lists or S*.
        train_idx: int64, public training ids.
        rng: gives the key (two draws).
        present: bool, shape (num_nodes,): nodes with a record; None means all.

    Returns:
        the manifest.

    Raises:
        ValueError: an id is out of range or repeated.
        DamagedFileError: a partition is missing, or not the one that was made.
        BusyError: another process makes this sample.
        OSError: a folder cannot be written, or the disk is full.
    """
    key = tuple(int(word) for word in draw_key(rng))
    has_record = present_mask(place.num_nodes, present)
    train = node_mask(place.num_nodes, train_idx, "train_idx")
    masks = {
        "present": has_record, "train": train, "readers": train & has_record,
        "everyone": np.ones(place.num_nodes, np.uint8),
    }  # fmt: skip

    def work(job: Job) -> tuple[list[PartFacts], dict[str, Any]]:
        job.write_bits(masks)
        num_arcs = lists.sample_lists(job, sampler, place.partitions, scheduler=place.scheduler)
        job.join_lists(job.ranges)
        facts = lists.sample_trees(
            job, num_hops=sampler.num_hops, scheduler=place.scheduler,
            max_occurrences=sampler.promise.max_occurrences,
        )  # fmt: skip
        return facts, {"num_arcs": num_arcs}

    stated = {name: digest(mask) for name, mask in masks.items()}
    sampled = {"name": sampler.promise.name, "params": sampler.promise.params}
    return _made(place, "subgraphs", sampled, stated, (key[0], key[1]), work)


def sample_partition(
    place: Place, sampler: Walks, train_idx: np.ndarray, rng: np.random.Generator, *, mirrored: bool
) -> dict[str, Any]:
    """A data set of kind `partition`: the rows of `Walks.draw(...).to_table()` on the training graph.

    Guarantee: the walks are bit for bit those of one machine, so the promise of `Walks` holds.

    Args:
        place: partitions, folder and scheduler.
        sampler: length and number of walks.
        train_idx: int64, public training ids, which induce the graph.
        rng: of the order of roots and of the key.
        mirrored: add the other direction of each arc; for directed graphs.

    Returns:
        the manifest.

    Raises:
        ValueError, DamagedFileError, BusyError, OSError: as `sample_trees`.
    """
    member = node_mask(place.num_nodes, train_idx, "train_idx")
    ids = np.where(member != 0, np.arange(place.num_nodes), -1).astype(np.int32)
    state = rng.bit_generator.state

    def work(job: Job) -> tuple[list[PartFacts], dict[str, Any]]:
        write_members(job, np.flatnonzero(member))
        job.write_masks({"place": ids})
        induce(job, place.partitions, place.num_nodes, mirrored=mirrored, scheduler=place.scheduler)
        return sample_walks(job, sampler, rng, scheduler=place.scheduler), {}

    sampled = {"name": "walks", "params": sampler.promise.params}
    stated = {"rng": state, "mirrored": mirrored, "train": digest(ids)}
    return _made(place, "partition", sampled, stated, (0, 0), work)


def sample_appr(
    place: Place, nodes: np.ndarray, num_roots: int, options: Mapping[str, Any], *, mirrored: bool
) -> dict[str, Any]:
    """A data set of kind `rows`: PageRank rows of the first nodes on the graph induced by all `nodes`.

    Guarantee: none; the rows are those of `approximate_pagerank`, bit for bit, as sensitive as the edges.

    Args:
        place: partitions, folder and scheduler; a task computes `width` rows.
        nodes: int64, shape (n,), each once: roots and columns are positions in it.
        num_roots: number of rows.
        options: of `approximate_pagerank`.
        mirrored: add the other direction of each arc; for directed graphs.

    Returns:
        the manifest.

    Raises:
        ValueError: an id is out of range or repeated, or a row does not reach its tolerance.
        DamagedFileError, BusyError, OSError: as `sample_trees`.
    """
    node_mask(place.num_nodes, nodes, "nodes")
    require(0 <= num_roots <= len(nodes), "num_roots", f"lie in 0..{len(nodes)}", num_roots)
    ids = np.full(place.num_nodes, -1, np.int32)
    ids[nodes] = np.arange(len(nodes))

    def work(job: Job) -> tuple[list[PartFacts], dict[str, Any]]:
        write_members(job, np.arange(len(nodes)))
        job.write_masks({"place": ids})
        induce(job, place.partitions, len(nodes), mirrored=mirrored, scheduler=place.scheduler)
        return sample_rows(job, num_roots, options, scheduler=place.scheduler), {}

    sampled = {"name": "appr", "params": dict(options)}
    stated = {"mirrored": mirrored, "roots": num_roots, "nodes": digest(ids)}
    return _made(place, "rows", sampled, stated, (0, 0), work)


Work = Callable[[Job], tuple[list[PartFacts], dict[str, Any]]]


def _made(
    place: Place,
    kind: str,
    sampled: dict[str, Any],
    stated: dict[str, Any],
    key: tuple[int, int],
    work: Work,
) -> dict[str, Any]:
    """The data set of this work, put in place."""
    at_least("nodes of a range", place.width, 1)
    graph = place.partitions.graph
    facts = {"graph": dict(graph), "sampler": sampled, "width": place.width}
    with unfinished(place, [kind, facts, stated], key=key) as job:
        made, more = work(job)
        known = {part.name for part in made}
        for path in job.out.iterdir():  # leftovers of killed workers
            if path.name not in known:
                path.unlink()
        finish(job.out, kind, facts | more, made)
    return read_manifest(place.out)


def digest(values: np.ndarray) -> str:
    """A short hash of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def rule_of(setting: Setting | None) -> str | None:
    """The setting as in `Job`."""
    if setting is None:
        return None
    return "inductive" if setting.inductive else "dropped"


@contextmanager
def unfinished(place: Place, stated: Any, *, key: tuple[int, int] = (0, 0)) -> Iterator[Job]:
    """A job in a hidden folder beside `place.out`; its parts replace `place.out` at the end.

    The same request resumes there after an error or a kill.

    Args:
        stated: what decides the result besides partitions and setting; JSON.
        key: of the sampler.
    """
    parts = [(part.name, part.sha256) for part in place.partitions.parts]
    codes = None if place.setting is None else digest(place.setting.codes)
    decided = sha256_json([stated, key, parts, codes, rule_of(place.setting), place.width])
    out = place.out.resolve()
    with explain_os_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(out.parent / f".{out.name}.lock", f"{out} is being made"):
            folder = out.parent / f".{out.name}.{decided[:16]}"
            for left in out.parent.glob(f".{out.name}.{'[0-9a-f]' * 16}"):
                if left != folder:
                    shutil.rmtree(left)
            job = Job(
                work=folder / "work", out=folder / "parts", num_nodes=place.num_nodes,
                width=place.width, key=key, setting=rule_of(place.setting),
            )  # fmt: skip
            for made in (job.work, job.out):
                made.mkdir(parents=True, exist_ok=True)
            if place.setting is not None:
                job.write_masks({"setting": np.ascontiguousarray(place.setting.codes, np.int8)})
            yield job
            if out.exists():
                shutil.rmtree(out)
            os.replace(job.out, out)
            shutil.rmtree(folder)
