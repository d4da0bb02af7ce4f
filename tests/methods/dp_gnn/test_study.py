"""The study of DP-GNN: its entries are the paper's Tables 9 to 12, its map finds every published number."""

from __future__ import annotations

import csv
from collections import defaultdict
from typing import Any

import pytest
from helpers import ROOT
from studies import known

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Facts
from dpgnn.report.paper.map import PaperRule, PaperTable, load_map, read_numbers
from dpgnn.report.paper.rows import row_matches
from dpgnn.study.study import Study

FILE = ROOT / "workflow" / "studies" / "dpgnn.yaml"
MAP = load_map("dpgnn")
STUDY = known(FILE, "L")
# result table of the paper -> tables of options
OPTION_TABLES = {"T9": "T1", "T10": "T2", "T11": "T3", "T12": "T4"}


def paper_options() -> list[Any]:
    """(result table, method, data set) -> options, from Tables 9 to 12."""
    found: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    with open(ROOT / "data" / "papers" / "paper_hparams.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["paper"] == "dpgnn" and row["table"] in OPTION_TABLES:
                key = (OPTION_TABLES[row["table"]], row["method"], row["dataset"])
                found[key][row["param"]] = row["value"]
    return [pytest.param(*key, options, id=" ".join(key)) for key, options in found.items()]


def rule_of(table: PaperTable, row: dict[str, str]) -> PaperRule:
    """The first rule that matches a row of the paper."""
    return next(rule for rule in table.rules if row_matches(row, rule.where))


@pytest.mark.parametrize(("table", "method", "dataset", "stated"), paper_options())
def test_an_entry_has_the_options_of_the_papers_table(
    table: str, method: str, dataset: str, stated: dict[str, str]
) -> None:
    names = (method, f"non-private {method}")  # Table 3 and Table 11 name one method differently
    row = next(
        row
        for row in read_numbers(MAP.source)
        if row["paper"] == "dpgnn" and row["table"] == table
        and row["method"] in names and row["dataset"] == dataset
    )  # fmt: skip
    rule = rule_of(MAP.tables[table], row)
    ours = MAP.tables[table].datasets.get(dataset, dataset)
    entry = STUDY.entries[rule.entry].for_dataset(ours)
    options, loop = entry.options, entry.options.training
    assert loop.optimizer.name == stated["optimizer"]
    assert loop.optimizer.lr == float(stated["lr"])
    assert loop.expected_batch_size == int(stated["batch_size"])
    assert options.activation == stated["activation"].lower()
    assert options.width == 256
    if "noise_multiplier" in stated:
        assert loop.noise_multiplier == float(stated["noise_multiplier"])
    else:
        assert entry.mode == "nonprivate"
    layers = int(stated["n_enc"]), int(stated["n_dec"])
    if method == "DP-MLP":
        assert options.num_layers == sum(layers)
        return
    assert (options.encoder_layers, options.decoder_layers) == layers
    if method == "MLP":
        assert options.num_hops == 0
        return
    assert options.max_degree == int(stated["K"])
    assert options.num_hops == (2 if "2-layer" in method else 1)
    assert options.conv == next(c for c in ("gcn", "gin", "gat") if c in method.lower())
    assert (options.num_heads, options.head_width, options.skip) == (10, 25, True)


def test_every_number_of_tables_1_to_6_has_its_cell_in_tier_l() -> None:
    planned = {(key.dataset, key.setting, key.entry, key.epsilon) for key in STUDY.keys}
    count = 0
    for table in MAP.tables.values():
        for row in read_numbers(MAP.source):
            if not row_matches(row, table.where):
                continue
            rule = rule_of(table, row)
            epsilon = row["epsilon"] or "inf"
            dataset = table.datasets.get(row["dataset"], row["dataset"])
            cell = (dataset, rule.setting or table.setting, rule.entry, epsilon)
            assert cell in planned, cell
            count += 1
    # 20 + 18 + 8 + 18 values of Tables 1 to 4, 12 of each ablation, 6 more at equal noise
    assert count == 20 + 18 + 8 + 18 + 12 + 6 + 12


@pytest.mark.parametrize(
    ("entry", "dataset", "num_train", "steps"),
    [
        ("t1-dp_gcn-adam", "ogbn-arxiv", 90941, 668),
        ("t1-dp_gcn-sgd", "ogbn-products", 196615, 220),
        ("t2-dp_gcn1-clustered", "ogbn-arxiv", 113460, 2153),
        ("t3-dp_gat", "ogbn-arxiv", 90941, 229),
        ("t4-dp_gin2", "reddit2", 153932, 637),
        ("t6-dp_gcn~max_degree=30", "ogbn-arxiv", 90941, 1094),
        ("t5-equal-full", "ogbn-arxiv", 90941, 1389),
    ],
)
def test_entries_of_the_study_plan_the_papers_steps(
    entry: str, dataset: str, num_train: int, steps: int
) -> None:
    found = STUDY.entries[entry].for_dataset(dataset)
    facts = Facts(
        num_nodes=num_train, num_train=num_train, num_features=128, num_classes=40,
        task="multiclass",
    )  # fmt: skip
    assert STUDY.entries[entry].epsilons is not None
    epsilon = float(STUDY.entries[entry].epsilons[0])
    budget = Budget(epsilon=epsilon, delta=1 / (10 * num_train))
    assert methods.get(found.method).plan(found, facts, budget).num_steps == steps


@pytest.mark.parametrize(
    ("dataset", "num_train", "steps"),
    [("ogbn-arxiv", 90941, 156), ("ogbn-mag", 629571, 8128), ("reddit2", 153932, 462)],
)
def test_dp_mlp_takes_the_authors_steps_up_to_their_grid_of_orders(
    dataset: str, num_train: int, steps: int
) -> None:
    found = STUDY.entries["t1-dp_mlp"].for_dataset(dataset)
    facts = Facts(
        num_nodes=num_train, num_train=num_train, num_features=128, num_classes=40,
        task="multiclass",
    )  # fmt: skip
    budget = Budget(epsilon=12.0, delta=1 / (10 * num_train))
    planned = methods.get("dp_mlp").plan(found, facts, budget).num_steps
    assert steps <= planned <= 1.01 * steps


@pytest.mark.parametrize("tier", ["S", "M"])
def test_smaller_tiers_keep_the_entries_that_decide(tier: str) -> None:
    study: Study = known(FILE, tier)
    entries = {key.entry for key in study.keys}
    assert {"mlp", "gcn", "dp_mlp", "dp_mlp-mean1", "dp_gcn", "dp_gcn-paper"} <= entries
    if tier == "M":
        assert "dp_mlp-mean2" in entries
        cells = {(k.dataset, k.setting, k.epsilon) for k in study.keys if k.entry == "dp_gcn"}
        names = ("photo", "computers", "cs", "physics", "facebook-Rutgers89")
        for dataset in names:
            for setting in ("transductive", "disjoint"):
                for epsilon in ("1", "2", "4", "8", "12"):
                    assert (dataset, setting, epsilon) in cells
        assert max(key.repeat for key in study.keys) == 4
