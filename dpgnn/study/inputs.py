"""Loads the inputs of one run of a study: graph, split, prepared sample, each checked and hashed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpgnn import methods
from dpgnn.core.checks import fail, require
from dpgnn.core.checksums import check
from dpgnn.core.paths import Paths
from dpgnn.core.storage import parquet_metadata, read_json, read_parquet, sha256_file
from dpgnn.data.files.content import structure_hash
from dpgnn.data.files.graph_files import read_graph, read_meta
from dpgnn.data.files.stored_graph import StoredGraph
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split, edges_in_setting, read_split
from dpgnn.methods.base import Entry, Prepared
from dpgnn.methods.entry import StoredSample
from dpgnn.run.specification import RunInputs
from dpgnn.study.bounds import REMEDY, Bound, stays_on_disk
from dpgnn.study.on_disk import place_of, stored_graph
from dpgnn.study.study import RunKey, Study
from dpgnn.study.wanted import Wanted


def inputs_of(
    study: Study,
    key: RunKey,
    paths: Paths,
    *,
    device: str = "cpu",
    draw: Callable[[Entry, Graph, Split], Prepared | None] | None = None,
    bound: Bound | None = None,
) -> RunInputs:
    """Load the inputs of one run, with the hashes for its record.

    Args:
        study, key, paths: which run, and where its files lie.
        device: where it trains.
        draw: draws the prepared sample if its file is missing; with None that is an error.
        bound: on memory; None reads the whole graph.

    Raises:
        ValueError, DamagedFileError: a file is missing or damaged, or the bound cannot be kept.
    """
    stated = Wanted(study).inputs(key, device)
    meta = read_meta(paths.graph(key.dataset))
    split_path = paths.split(key.dataset, key.setting, key.repeat)
    split = read_split(split_path, num_nodes=meta["num_nodes"])
    _check_split(study, key, split_path, meta["content_sha256"])
    graph, structure = _graph(stated, key, paths, meta, split, bound)
    made = None if draw is None else functools.partial(draw, stated.entry, graph, split)
    apart = place_of(bound.work, meta) if bound and isinstance(graph, StoredGraph) else None
    prepared, prepared_sha256 = read_prepared(stated.entry, key, paths, draw=made, apart=apart)
    provenance = meta["provenance"]
    return dataclasses.replace(
        stated, graph=graph, split=split, prepared=prepared,
        hashes={
            "graph_sha256": meta["content_sha256"],
            "split_sha256": sha256_file(split_path),
            "prepared_sha256": prepared_sha256,
        },
        caveats=(*provenance.get("caveats", ()), *_caveats_of_split(stated, study, key)),
        edge_caveats=tuple(provenance.get("edge_caveats", ())), structure_sha256=structure,
    )  # fmt: skip


def _caveats_of_split(stated: RunInputs, study: Study, key: RunKey) -> tuple[str, ...]:
    """Caveats of a run's split; in a release also where a node that goes or is emptied moves others."""
    setting = study.config.settings[key.setting]
    may_go = stated.entry.relation != "replace-one" and stated.entry.privacy_unit != "edge"
    moves = may_go and not setting.keeps_others and stated.randomness == "release"
    return ("preprocessing",) if moves else setting.caveats


def _graph(
    stated: RunInputs,
    key: RunKey,
    paths: Paths,
    meta: Mapping[str, Any],
    split: Split,
    bound: Bound | None,
) -> tuple[Graph, str]:
    """The graph in its setting, and the hash of its whole structure for a release ("" in a study)."""
    folder, release = paths.graph(key.dataset), stated.randomness == "release"
    spec = methods.get(stated.entry.method).sampler(stated.entry)
    sample = None
    if spec is not None:
        sample = paths.prepared(key.dataset, key.setting, key.repeat, spec.label)
    if bound is not None and stays_on_disk(stated.entry, meta, split, bound, sample):
        rule = "be enough for the whole graph in a release"
        require(not release, "--memory", rule, bound.shown, REMEDY)
        return stored_graph(folder, meta, split, bound.work), ""
    graph = graph_in(folder, meta["content_sha256"])
    # a release enters the ledger of the whole graph, whatever edges its setting keeps
    structure = structure_hash(graph) if release else ""
    return dataclasses.replace(graph, edge_index=edges_in_setting(graph, split)), structure


def _check_split(study: Study, key: RunKey, path: Path, graph_sha256: str) -> None:
    """Refuse a split of another study, recipe or graph: its runs would not be paired with the others."""
    stated, setting = parquet_metadata(path), study.config.settings[key.setting]
    remedy = "`dpgnn run STUDY --target splits`, with the study's name or file, makes it again"
    # the message leaves out the checksum, which would tell two candidate graphs apart
    if stated.get("graph_sha256", graph_sha256) != graph_sha256:
        fail(str(path), f"be a split of the graph {key.dataset}", "one of another graph", remedy)
    wanted: dict[str, Any] = {"config": setting.stated}
    if setting.kind != "public":
        wanted["root_seed"] = study.config.root_seed
    for name, value in wanted.items():
        if stated.get(name, value) != value:
            fail(f"{name} of {path}", f"be {value}, as in study {study.name}", stated[name], remedy)


@functools.lru_cache(maxsize=1)
def graph_in(folder: Path, content_sha256: str) -> Graph:
    """A graph, read once for all runs of a process."""
    return read_graph(folder)


def read_prepared(
    entry: Entry,
    key: RunKey,
    paths: Paths,
    *,
    draw: Callable[[], Prepared | None] | None = None,
    apart: Path | None = None,
) -> tuple[Prepared | None, str | None]:
    """The prepared sample of an entry and its file's sha256; (None, None) without one.

    If the file is missing and `draw` is given, it draws the sample, which then has no sha256. With `apart`, a
    folder for derived files, the rows stay in the file.
    """
    spec = methods.get(entry.method).sampler(entry)
    if spec is None:
        return None, None
    path = paths.prepared(key.dataset, key.setting, key.repeat, spec.label)
    if draw is not None and not path.exists():
        return draw(), None
    for file in (path, path.with_suffix(".json")):
        check(file)
    stated, sha256 = read_json(path.with_suffix(".json")), sha256_file(path)
    known = {"kind": stated["kind"], "facts": stated["facts"]}
    if apart is not None:
        import pyarrow as pa

        return StoredSample(
            table=pa.table({}), file=path, sha256=sha256, place=apart, **known
        ), sha256
    return Prepared(table=read_parquet(path), **known), sha256
