"""docs/choose.md: the recommended method for each unit and budget, with its accuracy on every real graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpgnn import methods
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.cells import Cell
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.figure_data import majority_of, plotted
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.choices import Choice, choices
from dpgnn.report.statistics.ranking import ANSWERS_TO
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.table import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROTECTS = {
    "edge": "one edge; features and labels are public",
    "node-record": "one node's features, label and own list; not that others list it",
    "node-bounded": "one node with all its edges, degrees at most {bound} (the graphs are cut to that)",
    "node": "one node with all its edges",
}
CHANGES = {
    "add-remove": "Two graphs are told apart by one that is there or not (add-remove).",
    "null-one": "Two graphs are told apart by one that is emptied (null-one).",
    "replace-one": "Two graphs are told apart by one that is replaced (replace-one).",
}
NOTES = {
    "edge": "",
    "node-record": "Votes take each graph's declared mean degree; at their default they have no board at "
    "ε = 1 and 2.",
    "node-bounded": "No claim covers the cut. Under add-remove DP-MLP and DP-Linear of unit node protect "
    "this too, with less noise.",
    "node": "",
}
COLORS = {"edge": "#0072B2", "node-record": "#D55E00", "node-bounded": "#009E73", "node": "#CC79A7"}
KINDS = {
    "citations": ("cora", "cora_ml", "citeseer", "pubmed", "dblp", "ogbn-arxiv"),
    "co-purchases": ("photo", "computers", "ogbn-products"),
    "co-authors": ("cs", "physics"),
    "friends": ("facebook",),
    "pictures of digits, by likeness": ("digits",),
}
PANELS = 4  # of the chart, in one row


def choose_page(
    found: Sequence[StudyResults], made: str
) -> tuple[str, Picture, list[Choice]] | None:
    """The page, its chart and its choices; None where the study has no records.

    Args:
        found: studies with committed records.
        made: the page's first line, which says how it was made.
    """
    results = next((results for results in found if results.info.name == MAIN_STUDY), None)
    if results is None:
        return None
    cells = on_real_graphs_if_any(plotted(results.cells), lambda cell: cell.dataset)
    private = {cell.epsilon for cell in cells if cell.is_private}
    chosen = choices(cells, sorted(private, key=float))
    graphs = _graphs(cells, chosen)
    picture = _chart(chosen, cells, graphs)
    lines = [made, "", "# Which method?", "", *_intro(results), "", *_kinds(graphs)]
    lines += [f"![{picture.title}](figures/{picture.name}.png)", "", f"*{picture.caption}*", ""]
    lines += [*_free(cells, graphs), ""]
    for unit in dict.fromkeys(choice.notion.privacy_unit for choice in chosen):
        here = [choice for choice in chosen if choice.notion.privacy_unit == unit]
        lines += [*_unit(here, graphs), ""]
    lines += _further()
    return "\n".join(lines) + "\n", picture, chosen


def _graphs(cells: Sequence[Cell], chosen: Sequence[Choice]) -> dict[str, int]:
    """Data set -> nodes, in the order of their size."""
    shown = {dataset for choice in chosen for dataset in choice.best}
    sizes = {
        cell.dataset: int(cell.runs[0].record.facts["num_nodes"])
        for cell in cells
        if cell.dataset in shown
    }
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def _intro(results: StudyResults) -> list[str]:
    return [
        "Find your privacy unit and your ε. The tables show the proved method with the best mean rank over "
        "real graphs, among those whose answers may be given. Numbers: test accuracy in percent ± half its "
        "95 % interval, over the number of splits after the graph's name or after the number; = votes "
        "without a board, whose answers are DP-MLP's. *next*: the next method by mean rank; *ahead* a:b of "
        "n: significantly better than it on a of n graphs, worse on b. One fixed configuration for each "
        "method (votes: with each graph's own mean degree); [options from public graphs]"
        "(results/options.md) cost no privacy; [words](terms.md); "
        f"[all rankings](results/{results.info.name}.md#rankings).",
    ]


def _kinds(graphs: Iterable[str]) -> list[str]:
    """What the edges of each graph are."""
    named = {
        kind: [graph for graph in graphs if graph in members or graph.split("-")[0] in members]
        for kind, members in KINDS.items()
    }
    told = [f"{kind} ({', '.join(found)})" for kind, found in named.items() if found]
    return [f"Edges are {', '.join(told)}.", ""] if told else []


def _free(cells: Sequence[Cell], graphs: Mapping[str, int]) -> list[str]:
    """Baselines without privacy: the majority class, MLP, GCN."""
    rows = [["majority class", *(_majority(cells, graph) for graph in graphs)]]
    for entry, label in (("mlp", "MLP"), ("gcn", "GCN")):
        here = {cell.dataset: cell for cell in cells if cell.entry == entry and not cell.is_private}
        rows.append([label, *(_score(here.get(graph)) for graph in graphs)])
    return ["## Without privacy", "", *_compact(["", *graphs], rows)]


def _compact(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table without the spaces beside its bars."""
    return [line.replace("| ", "|").replace(" |", "|") for line in pivots.markdown(head, rows)]


def _majority(cells: Sequence[Cell], graph: str) -> str:
    """The mean over splits of the largest class's share of the test nodes, in percent."""
    share = majority_of([cell for cell in cells if cell.dataset == graph])
    return "–" if share is None else f"{100 * share:.1f}"


def _score(cell: Cell | None, usual: int | None = None) -> str:
    """Mean and half the interval; = without a board; the number of splits where it is not the usual one."""
    if cell is None:
        return "–"
    found = cell.interval
    text = f"{100 * found.mean:.1f}"
    if found.low is not None and found.high is not None:
        text += f"±{50 * (found.high - found.low):.1f}"
    text += "=" if any(run.record.details.get("board") is False for run in cell.runs) else ""
    return text if usual in (None, found.n) else f"{text} ({found.n})"


def _unit(here: Sequence[Choice], graphs: Mapping[str, int]) -> list[str]:
    first = here[0]
    usual = {graph: _usual(here, graph) for graph in graphs}
    protects = PROTECTS[first.notion.privacy_unit].format(bound=first.notion.degree_bound)
    rows = []
    for choice in here:
        ahead, behind, both = choice.decided()
        following = next(iter(choice.next.values())).label if choice.next else "–"
        tally = f"{ahead}:{behind} of {both}" if both else "–"
        rows.append([
            epsilon_text(choice.epsilon), choice.label, _reads_edges(choice),
            *(_score(choice.best.get(graph), usual[graph]) for graph in graphs), following, tally,
        ])  # fmt: skip
    counts = [f"{graph} ({usual[graph]})" if usual[graph] else graph for graph in graphs]
    head = ["ε", "best", "edges", *counts, "next", "ahead"]
    told = f"{CHANGES[first.notion.relation]} Answers may be shown to {ANSWERS_TO[first.answers]}."
    return [
        f"## {first.notion.privacy_unit}: {protects}", "",
        f"{told} {NOTES[first.notion.privacy_unit]}".strip(), "",
        *_compact(head, rows),
    ]  # fmt: skip


def _usual(here: Sequence[Choice], graph: str) -> int | None:
    """The most frequent number of splits over the budgets of a graph; of equally frequent ones the
    largest."""
    counts = Counter(choice.best[graph].interval.n for choice in here if graph in choice.best)
    return max(counts, key=lambda n: (counts[n], n), default=None)


def _reads_edges(choice: Choice) -> str:
    return "yes" if methods.get(next(iter(choice.best.values())).method).uses_edges else "no"


def _further() -> list[str]:
    return [
        "DP-GNN, DRW, DPAR and averaged answers read other nodes' data for each answer, which no claim "
        "covers: [ranked apart](results/leaders.md). Under add-remove of nodes the plan takes their number "
        "as public; a release declares a `public_population`. What claims mean: "
        "[accounting](accounting.md). What a budget costs on your graph: `dpgnn account`.",
    ]


def _chart(chosen: Sequence[Choice], cells: Sequence[Cell], graphs: Mapping[str, int]) -> Picture:
    """Accuracy against the budget on the largest graphs, a line for each unit's best."""
    shown = list(graphs)[-PANELS:]
    units = list(dict.fromkeys(choice.notion.privacy_unit for choice in chosen))
    return Picture(
        name="choose",
        title="The best method of each unit at each budget",
        caption=(
            "The method named below for each unit and ε, on the largest real graphs; upright lines are 95 % "
            "intervals over splits. Dashed: MLP without privacy; dotted: the majority class."
        ),
        alt=f"Test accuracy against epsilon on {', '.join(shown)}, a line for each of {', '.join(units)}.",
        draw=partial(_drawn, chosen, cells, shown),
    )


def _drawn(chosen: Sequence[Choice], cells: Sequence[Cell], graphs: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.FULL, 2.3), layout="constrained")
    axes = figure.subplots(1, len(graphs), squeeze=False).ravel()
    for axis, graph in zip(axes, graphs):
        _panel(axis, graph, chosen, cells)
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=min(6, len(lines)),
    )  # fmt: skip
    axes[0].set_ylabel("test accuracy (%)")
    return figure


def _panel(axis: Axes, graph: str, chosen: Sequence[Choice], cells: Sequence[Cell]) -> None:
    for unit, color in COLORS.items():
        here = [
            choice.best[graph]
            for choice in chosen
            if choice.notion.privacy_unit == unit and graph in choice.best
        ]
        if not here:
            continue
        places = [float(cell.epsilon) for cell in here]
        means = [100 * cell.interval.mean for cell in here]
        axis.plot(places, means, "o-", color=color, markersize=4, label=unit)
        for place, cell in zip(places, here):
            low, high = cell.interval.low, cell.interval.high
            if low is not None and high is not None:
                axis.vlines(place, 100 * low, 100 * high, color=color, alpha=0.5)
    mlp = [c for c in cells if c.entry == "mlp" and c.dataset == graph and not c.is_private]
    if mlp:
        level = 100 * mlp[0].interval.mean
        axis.axhline(level, color="#777777", ls="--", lw=1, label="MLP, no privacy")
    share = majority_of([cell for cell in cells if cell.dataset == graph])
    if share is not None:
        axis.axhline(100 * share, color="#777777", ls=":", lw=1, label="majority class")
    axis.set_xscale("log", base=2)
    budgets = sorted({float(choice.epsilon) for choice in chosen})
    axis.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    axis.set_xlabel("ε")
    axis.set_title(graph, loc="left")
