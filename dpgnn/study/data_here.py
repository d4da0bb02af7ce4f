"""Whether a run was made from the graph, split and sample that lie in the folder now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dpgnn import methods
from dpgnn.core.checksums import list_of, read_checksums
from dpgnn.core.paths import Paths
from dpgnn.core.storage import DamagedFileError, read_json
from dpgnn.data import datasets
from dpgnn.study.study import RunKey, Study


class DataHere:
    """The graphs, splits and samples of a folder, each looked at once.

    Two studies that mean different splits by one name take turns in one file, and a user may change an own
    graph: then records are of data that are not there.

    Args:
        study: whose runs.
        root: the folder of the workflow.
    """

    def __init__(self, study: Study, root: Path) -> None:
        self._study, self._root = study, root
        self._listed, self._graph = cache(self._sum_of), cache(self._sum_of_graph)
        self._changed = cache(self._own_files_changed)

    def fits(self, record: Mapping[str, Any], key: RunKey) -> bool:
        """Whether the record's hashes are those of the files; what is missing or damaged is not compared."""
        stated = record.get("inputs") or {}
        here = dict(self._sums(key)) if stated else {}
        same = all(here.get(name) in (None, stated.get(name)) for name in here)
        return same and not self._changed(key.dataset)

    def _sums(self, key: RunKey) -> Iterator[tuple[str, str | None]]:
        paths, place = Paths(), (key.dataset, key.setting, key.repeat)
        yield "graph_sha256", self._graph(key.dataset)
        yield "split_sha256", self._listed(paths.split(*place))
        entry = self._study.entries[key.entry].for_dataset(key.dataset)
        spec = methods.get(entry.method).sampler(entry)
        if spec is not None:
            yield "prepared_sha256", self._listed(paths.prepared(*place, spec.label))

    def _sum_of(self, path: Path) -> str | None:
        """What the list of a file's job says of it."""
        try:
            return read_checksums(list_of(self._root / path)).get(self._root / path)
        except DamagedFileError:
            return None

    def _sum_of_graph(self, dataset: str) -> str | None:
        found = self._meta(dataset).get("content_sha256")
        return None if found is None else str(found)

    def _own_files_changed(self, dataset: str) -> bool:
        """Whether the files of a user's own graph are not those that it was made from."""
        own = self._root / datasets.OWN_FOLDER
        made = self._meta(dataset).get("provenance", {}).get("raw_sha256")
        if made is None or not (own / dataset).is_dir():
            return False
        try:
            return bool(datasets.own_provenance(own / dataset)["raw_sha256"] != made)
        except ValueError:  # graph.yaml is wrong, so it is not the one of then
            return True

    def _meta(self, dataset: str) -> dict[str, Any]:
        """The content of graph.json; {} if it is missing or damaged."""
        try:
            found = read_json(self._root / Paths().graph(dataset) / "graph.json")
        except DamagedFileError:
            return {}
        return found if isinstance(found, dict) else {}


def record_in(folder: Path) -> dict[str, Any] | None:
    """A run's record; None if there is none, {} if it cannot be read."""
    try:
        return dict(json.loads((folder / "record.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return {}
