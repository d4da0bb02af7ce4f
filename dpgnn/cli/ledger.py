"""`dpgnn ledger GRAPH`: all releases of a graph, and their joint guarantee."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.paths import RELEASES
from dpgnn.core.wording import count

if TYPE_CHECKING:
    from dpgnn.run.ledger import GraphLedger, Release
    from dpgnn.run.totals import Total


def add_parser(subparsers: Any) -> None:
    """Add `ledger` to the command line."""
    parser = subparsers.add_parser(
        "ledger",
        help="releases of a graph, and their total epsilon",
        epilog="--budget, --delta, --unit and --relation declare a budget for all releases together; a "
        "release that would exceed it is refused before training.",
    )
    said = "a data set's name, the folder of a graph's files, or `name` of dpgnn.fit (data if none was given)"
    parser.add_argument("graph", help=said)
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of results, with graphs"
    )
    parser.add_argument("--releases", type=Path, default=RELEASES, help="where releases are kept")
    parser.add_argument("--budget", type=float, help="declare this epsilon for all releases")
    parser.add_argument("--delta", type=float, help="of the declared budget")
    parser.add_argument("--unit", help="of the declared budget: node, node-record, edge, ...")
    parser.add_argument("--relation", help="of the declared budget: add-remove, ...")
    parser.add_argument("--degree-bound", type=int, help="of the unit node-bounded")
    parser.add_argument("--json", action="store_true", help="one JSON value in place of text")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Declare a budget if one is given, and print the ledger.

    Raises:
        ValueError: there is no such graph, or a part of the budget is missing.
    """
    from dpgnn.core.checks import require
    from dpgnn.core.storage import canonical_json

    ledger = open_ledger(args.graph, args.results, args.releases)
    stated = (args.budget, args.delta, args.unit, args.relation)
    if any(value is not None for value in stated):
        whole = None not in stated
        require(whole, "--budget, --delta, --unit, --relation", "be given together", stated)
        _declare(ledger, args)
    if args.json:
        print(canonical_json(_values(ledger)))
    else:
        print("\n".join(lines(ledger, args.graph)))
    return 0


def open_ledger(
    graph: str, results: Path = Path("results"), releases: Path = RELEASES
) -> GraphLedger:
    """The ledger of a graph with files, or of one that was given to `dpgnn.fit` under this name.

    Raises:
        ValueError: there are no files, and no graph or several graphs of that name have releases.
    """
    from dpgnn.core.checks import fail, require
    from dpgnn.core.paths import Paths
    from dpgnn.data.files.content import structure_hash
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.run.ledger import GraphLedger

    places = (Paths(results=results).graph(graph), Path(graph))
    folder = next((place for place in places if (place / "graph.json").exists()), None)
    if folder is not None:
        return GraphLedger(releases, structure_hash(read_graph(folder)))
    known = _graphs_called(graph, releases)
    if not known:
        rule = f"have its files in {' or '.join(map(str, places))}, or be released in {releases}"
        fail("graph", rule, graph, "`dpgnn data prepare NAME` makes one")
    remedy = "give each its own `name` in dpgnn.fit"
    require(len(known) == 1, f"graphs called {graph}", "be one", len(known), remedy)
    ledger = GraphLedger(releases, "")
    ledger.graph = known.pop()
    return ledger


def _graphs_called(name: str, releases: Path) -> set[str]:
    """Keyed checksums of the graphs of that name with releases."""
    return set(_of_name(name, releases))


def _of_name(name: str, releases: Path) -> list[str]:
    """For each release of a graph of that name the graph's keyed checksum."""
    from dpgnn.run.ledger import GraphLedger, entries

    ledger = GraphLedger(releases, "")
    found = (ledger.signed(path) for path in entries(releases))
    return [values["graph"] for values in found if values["dataset"] == name]


def lines(ledger: GraphLedger, name: str) -> list[str]:
    """The ledger in words: a line for each release, each total and each budget."""
    from dpgnn.run.ledger import without_entry
    from dpgnn.run.totals import budgets, notions_of, total

    found = ledger.releases()
    text = [f"{name}: {count(len(found), 'release')} in {ledger.root}"]
    text += [_release_line(release) for release in found]
    for notion in notions_of(found):
        text.append(_total_line(total(found, notion)))
    for budget in budgets(ledger):
        spent = total(found, budget.notion, budget.delta) if found else None
        so_far = 0.0 if spent is None else spent.epsilon
        text.append(
            f"budget  {budget.notion}: epsilon {so_far:.6g} of {budget.epsilon:g} at delta "
            f"{budget.delta:.6g}"
            + (
                f"; exceeded by {so_far - budget.epsilon:.6g}, so every further release is refused"
                if so_far > budget.epsilon
                else ""
            )
        )
    others = [graph for graph in _of_name(Path(name).name, ledger.root) if graph != ledger.graph]
    if others:
        text.append(
            f"not counted: {count(len(others), 'release')} of other graphs called {Path(name).name}, such as "
            "an earlier state of this one; for who is in both, epsilons add up, and each has its own budgets"
        )
    for folder in without_entry(ledger.root):
        text.append(
            f"not counted: {folder} is a release of an unknown graph, from before there were ledgers"
        )
    return text


def _release_line(release: Release) -> str:
    claim = release.claims[0]
    return (
        f"{release.when}  {release.name}  {release.method}  {claim.privacy_unit}, {claim.relation}: "
        f"epsilon {claim.epsilon:.6g}, delta {claim.delta:.6g}, {claim.status}"
    )


def _total_line(found: Total) -> str:
    how = "composed from all events" if found.composed else "the sum of the claims"
    if found.unproved:
        how = f"nothing is proved for {', '.join(found.unproved)}"
    return f"total   {found.notion}: epsilon {found.epsilon:.6g}, delta {found.delta:.6g}, {how}"


def _values(ledger: GraphLedger) -> dict[str, Any]:
    from dpgnn.run.totals import budgets, notions_of, total

    found = ledger.releases()
    return {
        "releases": [
            {
                "name": one.name, "dataset": one.dataset, "when": one.when, "method": one.method,
                "claims": [claim.to_dict() for claim in one.claims],
            }
            for one in found
        ],
        "totals": [total(found, notion) for notion in notions_of(found)],
        "budgets": budgets(ledger),
    }  # fmt: skip


def _declare(ledger: GraphLedger, args: argparse.Namespace) -> None:
    """Write the declared budget; unit and relation are checked as a claim's are."""
    from dpgnn.accountants.claims import Claim
    from dpgnn.accountants.implications import notion
    from dpgnn.run.totals import TotalBudget, declare

    claim = Claim(
        privacy_unit=args.unit, relation=args.relation, degree_bound=args.degree_bound,
        epsilon=args.budget, delta=args.delta, accountant="declared", status="proved",
    )  # fmt: skip
    declare(ledger, TotalBudget(notion=notion(claim), epsilon=args.budget, delta=args.delta))
