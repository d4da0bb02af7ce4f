"""The papers' tables of data sets beside what is loaded here, each value with a verdict.

DP-GNN Table 7, DRW Table 2, DPAR Table 2, CARIBOU Tables V and VI (for CARIBOU the values of the authors'
code, since the tables' own are not available).
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dpgnn.core.storage import write_text
from dpgnn.data import datasets, splits
from dpgnn.data.graph import Graph
from dpgnn.data.raw.files import RawFiles
from dpgnn.data.raw.sources import data_folder, source_of
from dpgnn.data.splits import PAPER_SETTINGS, Split, SplitConfig
from dpgnn.records.info import PAPERS
from dpgnn.report.tables.table import csv_text, markdown_text

FILES = ("paper_numbers.csv", "caribou_statistics.csv")

# the paper's name of a data set -> ours
NAMES = {
    ("dpgnn", "ogbn-arxiv"): "ogbn-arxiv",
    ("dpgnn", "ogbn-arxiv-disjoint"): "ogbn-arxiv",
    ("dpgnn", "ogbn-arxiv-clustered"): "ogbn-arxiv",
    ("dpgnn", "ogbn-products"): "ogbn-products",
    ("dpgnn", "ogbn-mag"): "ogbn-mag",
    ("dpgnn", "reddit"): "reddit2",
    ("dpgnn", "reddit-disjoint"): "reddit2",
    ("drw", "cora"): "cora",
    ("drw", "citeseer"): "citeseer",
    ("drw", "pubmed"): "pubmed",
    ("drw", "ppi"): "ppi",
    ("drw", "flickr"): "flickr",
    ("drw", "arxiv"): "ogbn-arxiv",
    ("drw", "reddit"): "reddit2",
    ("dpar", "Cora-ML"): "cora_ml",
    ("dpar", "MS Academic"): "cs",
    ("dpar", "CS"): "cs",
    ("dpar", "Physics"): "physics",
    ("dpar", "Reddit"): "reddit-dpar",
    ("caribou", "Chain-S"): "chains-s",
    ("caribou", "Chain-M"): "chains-m",
    ("caribou", "Chain-L"): "chains-l",
    ("caribou", "Chain-X"): "chains-x",
    ("caribou", "Cora"): "cora",
    ("caribou", "PubMed"): "pubmed",
    ("caribou", "Photo"): "photo",
    ("caribou", "Computers"): "computers",
    ("caribou", "Facebook"): "facebook-UIllinois20",
}

# known reasons for values that differ: (paper, data set, quantity) -> reason
KNOWN = {
    ("dpar", "Physics", "classes"): "the published data set has 5 classes; 8 looks like a slip",
    ("dpgnn", "ogbn-mag", "avg_degree"): "OGB's number for the whole heterogeneous graph",
    ("dpgnn", "ogbn-arxiv-clustered", "avg_degree"): "the paper's split file is not available",
}

# what would still have to be settled if the raw files were here: data set -> reason
UNSETTLED = {
    "reddit-dpar": "the paper does not say which 8 of the 41 classes it keeps; the 8 largest, our guess, has "
    "not been compared with the real file"
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One value of a paper's table beside ours.

    Attributes:
        verdict: "equal" (to the digits the paper prints), "differs" or "not-available".
        reason: why it differs or is not available, or the definition under which it is equal.
    """

    paper: str
    table: str
    dataset: str
    loaded_as: str
    quantity: str
    paper_value: str
    our_value: str
    verdict: str
    reason: str


def statistics_rows(raw_folder: Path) -> list[Row]:
    """All values of the four papers' tables of data sets.

    Args:
        raw_folder: where fetched files are kept; mirror folders come from DPGNN_MIRROR. Nothing is
            fetched: a data set that is not here is not-available.
    """
    load = cache(lambda name: _load(name, raw_folder))
    rows = []
    for line in _paper_lines():
        name = NAMES[line["paper"], line["dataset"]]
        graph, missing = load(name)
        if graph is None:
            rows.append(_row(line, name, "", "not-available", missing))
            continue
        rows.append(_compare(line, name, _measure(line, graph, raw_folder)))
    return rows


def as_markdown(rows: list[Row]) -> str:
    """The rows as Markdown, a table under a heading for each paper, whose anchor is the paper's name."""
    lines = ["# The papers' tables of data sets beside what is loaded here", ""]
    for paper in dict.fromkeys(row.paper for row in rows):
        lines += [f'<a id="{paper}"></a>', "", f"## {PAPERS[paper]}", ""]
        lines += [
            "| table | data set | quantity | paper | ours | verdict | reason |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in (row for row in rows if row.paper == paper):
            cells = [row.table, f"{row.dataset} ({row.loaded_as})", row.quantity]
            cells += [row.paper_value, row.our_value or "-", row.verdict, row.reason]
            lines.append("| " + " | ".join(markdown_text(cell) for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def write_rows(rows: list[Row], path: Path) -> None:
    """Write the rows as CSV (path ends in .csv) or Markdown."""
    if path.suffix != ".csv":
        write_text(path, as_markdown(rows))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in dataclasses.fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: csv_text(text) for name, text in dataclasses.asdict(row).items()} for row in rows
    )
    write_text(path, text.getvalue())


def _paper_lines() -> list[dict[str, str]]:
    lines = []
    for name in FILES:
        with open(data_folder() / "papers" / name, newline="", encoding="utf-8") as file:
            lines += [row for row in csv.DictReader(file) if "dataset_statistics" in row["setting"]]
    return lines


def _load(name: str, raw_folder: Path) -> tuple[Graph | None, str]:
    files = RawFiles(source=source_of(name), folder=raw_folder)
    missing = files.missing()
    if missing:
        how = "place it by hand" if not missing[0].url else "`dpgnn data prepare` would fetch it"
        open_question = f"; {UNSETTLED[name]}" if name in UNSETTLED else ""
        return None, f"{missing[0].mirror_path} is not here; {how}{open_question}"
    try:
        return datasets.load(name, folder=raw_folder, root_seed=0), ""
    except ValueError as error:
        return None, str(error)


def _measure(line: dict[str, str], graph: Graph, raw_folder: Path) -> dict[str, str]:
    """Our value of the line's quantity under every plausible definition: definition -> value."""
    split = _split_of(line, graph)
    quantity = line["metric"]
    if quantity == "edges":
        return {k: str(v) for k, v in edge_readings(graph, raw_folder).items()}
    measures: dict[str, Callable[[], object]] = {
        "nodes": lambda: graph.num_nodes - len(split.dropped_idx),
        "features": lambda: graph.num_features,
        "classes": lambda: graph.num_classes,
        "label_type": lambda: "multi" if graph.task == "multilabel" else "single",
        "avg_degree": lambda: splits.edges_in_setting(graph, split).shape[1] / graph.num_nodes,
        "directed_entries": lambda: splits.edges_in_setting(graph, split).shape[1],
        "training_nodes": lambda: len(split.train_idx),
        "validation_nodes": lambda: len(split.val_idx),
        "test_nodes": lambda: len(split.test_idx),
        "train_fraction": lambda: len(split.train_idx) / graph.num_nodes,
        "val_fraction": lambda: len(split.val_idx) / graph.num_nodes,
        "test_fraction": lambda: len(split.test_idx) / graph.num_nodes,
        "majority_in_test_pct": lambda: majority_share(graph, split),
    }
    return {"": str(measures[quantity]())}


def edge_readings(graph: Graph, raw_folder: Path) -> dict[str, int]:
    """What a paper may mean by the number of edges."""
    readings = {
        "undirected edges": graph.num_edges // 2,
        "directed edges": graph.num_edges,
        "twice the directed edges": 2 * graph.num_edges,
    }
    if datasets.entry_of(graph.name).module == "npz_graphs":
        from dpgnn.data.raw.arrays import read_npz

        files = RawFiles(source=source_of(graph.name), folder=raw_folder)
        readings["entries of the raw file"] = len(
            read_npz(files.only_path(), ["adj_data"])["adj_data"]
        )
    return readings


def majority_share(graph: Graph, split: Split) -> float:
    """Percentage of the test nodes in the most frequent class."""
    counts = np.bincount(graph.y[split.test_idx])
    return float(100 * counts.max() / counts.sum())


def _split_of(line: dict[str, str], graph: Graph) -> Split:
    config = SplitConfig(kind="public") if "public" in graph.splits else SplitConfig()
    if line["paper"] == "dpgnn" and line["dataset"].endswith("-disjoint"):
        config = PAPER_SETTINGS["dpgnn-disjoint"]
    elif line["dataset"].endswith("-clustered"):
        config = PAPER_SETTINGS["dpgnn-clustered"]
    elif line["paper"] == "caribou" and line["table"] == "T5":
        config = PAPER_SETTINGS["caribou"]
    # no quantity of these tables depends on a random split
    return splits.make_split(graph, config, rng=np.random.default_rng(0))


def _compare(line: dict[str, str], name: str, found: dict[str, str]) -> Row:
    paper = line["mean"]
    for reading, value in found.items():
        if _same(paper, value):
            return _row(line, name, _shown(paper, value), "equal", reading)
    (first, *_) = found.values()
    reason = KNOWN.get((line["paper"], line["dataset"], line["metric"]), "")
    readings = "; ".join(f"{reading}: {value}" for reading, value in found.items() if reading)
    return _row(line, name, _shown(paper, first), "differs", reason or readings)


def _same(paper: str, ours: str) -> bool:
    try:
        return float(paper) == float(_shown(paper, ours))
    except ValueError:
        return paper == ours


def _shown(paper: str, ours: str) -> str:
    """Our value with as many decimals as the paper prints."""
    try:
        value = float(ours)
    except ValueError:
        return ours
    digits = len(paper.partition(".")[2])
    return f"{value:.{digits}f}"


def _row(line: dict[str, str], name: str, ours: str, verdict: str, reason: str) -> Row:
    return Row(
        paper=line["paper"],
        table=line["table"],
        dataset=line["dataset"],
        loaded_as=name,
        quantity=line["metric"],
        paper_value=line["mean"],
        our_value=ours,
        verdict=verdict,
        reason=reason,
    )
