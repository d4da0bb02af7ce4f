"""Tables on votes, made from committed records and attacks: docs/findings/votes.md, docs/methods/votes.md.

python -m benchmarks.votes_note             writes them into the pages
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks._page import fill
from dpgnn.records.archive import read_archive
from dpgnn.records.attacks import read_attacks

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "docs" / "reference" / "headtohead"
PAGE = ROOT / "docs" / "findings" / "votes.md"
METHOD_PAGE = ROOT / "docs" / "methods" / "votes.md"
GRAPHS = {
    "digits": "digits", "cora": "Cora", "citeseer": "CiteSeer", "cora_ml": "Cora-ML", "photo": "Photo",
    "computers": "Computers", "cs": "CS", "physics": "Physics", "facebook-Rutgers89": "Rutgers89",
}  # fmt: skip
VARIANTS = {
    "board": "as it is: both reads, share 0.4", "list": "own list only", "row": "own row only",
    "kept": "own push not subtracted", "second": "two rounds", "share-2": "share 0.2",
    "share-6": "share 0.6", "share-8": "share 0.8", "capped": "32 pushes at most",
}  # fmt: skip
GAMES = {
    "record": "a record, removed",
    "label": "its label, changed",
    "mentions": "others' mentions, removed",
}
# (data set, entry, epsilon) -> repeat -> (test accuracy in percent, whether there was a board)
Cells = Mapping[tuple[str, str, str], Mapping[int, tuple[float, bool]]]


def cells(path: Path, entries: Sequence[str]) -> Cells:
    """Test accuracies in setting `whole`."""
    found: dict[tuple[str, str, str], dict[int, tuple[float, bool]]] = defaultdict(dict)
    for run, (text, _) in read_archive(path).items():
        place, entry, epsilon, repeat = run.split("/")
        dataset, setting = place.rsplit(".", 1)
        if setting != "whole" or entry not in entries:
            continue
        record = json.loads(text)
        accuracy = 100 * record["metrics"]["test"]["accuracy"]
        key = (dataset, entry, epsilon.removeprefix("eps="))
        found[key][int(repeat)] = (accuracy, record["details"].get("board") is not False)
    return found


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured() -> str:
    """DP-MLP and votes on the same splits; `=` where the plan has no board."""
    return _beside(
        ("dp_mlp", "dp_linear", "votes", "votes-default", "votes-2"), same_splits=("votes",)
    )


def edge() -> str:
    """GAP and votes at edge level, on the splits that both have."""
    pair = ("gap", "votes_edge")
    return _beside(pair, same_splits=pair)


def _beside(entries: Sequence[str], *, same_splits: Sequence[str]) -> str:
    """A row for each graph and entry: means over the splits that all of `same_splits` have."""
    found = cells(RECORDS / "runs.parquet", entries)
    rows = []
    for dataset, title in GRAPHS.items():
        repeats = sorted(set.intersection(*(set(found[dataset, e, "8"]) for e in same_splits)))
        for entry in entries:
            number = sum(repeat in found[dataset, entry, "8"] for repeat in repeats)
            row = [f"{title} ({number})", f"`{entry}`"]
            for epsilon in ("1", "2", "4", "8"):
                of = found[dataset, entry, epsilon]
                values = [of[repeat] for repeat in repeats if repeat in of]
                if not values:
                    row.append("-")
                    continue
                mean = fmean(accuracy for accuracy, _ in values)
                row.append(f"{mean:.1f}" + ("" if all(board for _, board in values) else " ="))
            rows.append(row)
    return table(["graph (splits)", "entry", "epsilon 1", "2", "4", "8"], rows)


def ablation() -> str:
    """One option changed at a time, mean of three splits."""
    found = cells(RECORDS / "votes_ablation.parquet", list(VARIANTS))
    graphs = ("facebook-Rutgers89", "photo", "cora_ml")
    rows = []
    for entry, words in VARIANTS.items():
        means = [
            " / ".join(
                f"{fmean(a for a, _ in found[graph, entry, epsilon].values()):.1f}"
                for epsilon in ("1", "4", "8")
            )
            for graph in graphs
        ]
        rows.append([words, *means])
    return table(["epsilon 1 / 4 / 8", *(GRAPHS[graph] for graph in graphs)], rows)


def attacks() -> str:
    """What the games on the board show."""
    rows = []
    for result in read_attacks(RECORDS / "votes_attacks"):
        if result.attack != "board" or result.status != "ok":
            continue
        verdict = "exceeds" if result.exceeds_claim else "within"
        if result.detects <= result.claimed_epsilon:
            verdict = f"cannot say ({result.detects:.2f} at most)"
        if not result.covered:
            verdict = "not claimed"
        rows.append([
            GRAPHS[result.dataset], result.epsilon, GAMES[result.what],
            f"{result.further['list_length']} / {result.further['num_mentions']}", f"{result.auc:.3f}",
            f"{result.line.epsilon_lower_bound:.2f}", verdict,
        ])  # fmt: skip
    header = ["graph", "epsilon", "what differs", "own list / mentions", "AUC", "epsilon >="]
    return table([*header, "the claim"], rows)


def classes() -> str:
    """Classes read off the rows of nodes that did not vote."""
    rows = []
    for result in read_attacks(RECORDS / "votes_attacks"):
        if result.what != "mentions":
            continue
        found = result.further
        numbers = (
            found["share_of_largest_class"], found["class_from_row"],
            found["class_from_row_of_most_mentioned"],
        )  # fmt: skip
        rows.append([
            GRAPHS[result.dataset], result.epsilon,
            *(f"{100 * number:.1f}" for number in numbers),
            f"{found['mentions_of_most_mentioned']:.0f}",
        ])  # fmt: skip
    header = ["graph", "epsilon", "largest class", "class from the row", "the same, most mentioned tenth",
              "their mentions by voters"]  # fmt: skip
    return table(header, rows)


TABLES = {"measured": measured, "ablation": ablation, "attacks": attacks, "classes": classes}


def main(page: Path = PAGE, method_page: Path = METHOD_PAGE) -> None:
    """Write the tables into the pages."""
    for name, make in TABLES.items():
        fill(page, name, make())
    fill(method_page, "edge", edge())


if __name__ == "__main__":
    main()
