"""Advice follows from the numbers given, the methods' own plans and the committed records."""

from __future__ import annotations

import csv
import io
import json
import math
from functools import cache
from pathlib import Path

import pytest
from helpers import tells

import dpgnn
from dpgnn import methods
from dpgnn.__main__ import main
from dpgnn.accountants.implications import Notion, notion, notion_implies
from dpgnn.core import config as strict
from dpgnn.records.archive import MAIN_STUDY, read_archive
from dpgnn.records.committed import ROOT, committed, copied_options
from dpgnn.release.advice import similar_graphs
from dpgnn.release.advised import Advice, Asked
from dpgnn.run.account import nested
from dpgnn.study.entries import merge
from dpgnn.study.study import load_study
from dpgnn.training.evaluation import mean_interval

CORA = {"nodes": 2708, "edges": 5278, "classes": 7}


@cache
def advice_at_four(unit: str) -> Advice:
    return dpgnn.advise(**CORA, epsilon=4, unit=unit)


@pytest.fixture
def node() -> Advice:
    return advice_at_four("node")


@cache
def advice_at_three(unit: str) -> Advice:
    """Advice at epsilon 3, which has no records."""
    return dpgnn.advise(**CORA, epsilon=3, unit=unit)


def test_the_most_similar_graph_of_a_public_graph_is_itself(node: Advice) -> None:
    assert next(iter(node.similar)) == "cora"
    assert len(node.similar) == 3
    cells = [cell for cell in committed(study=MAIN_STUDY, swept=False) if cell.claims]
    large = Asked(nodes=40_000, edges=300_000, classes=5, epsilon=3, unit="edge")
    assert next(iter(similar_graphs(cells, large))) == "physics"


def test_scores_are_those_of_the_committed_runs(node: Advice) -> None:
    archive = read_archive(ROOT / "headtohead" / "runs.parquet")
    (found,) = [one for one in node.advised if one.entry == "dp_mlp"]
    for dataset in node.similar:
        texts = [
            record
            for name, (record, _) in archive.items()
            if name.startswith(f"{dataset}.whole/dp_mlp/eps=4/")
        ]
        scores = [json.loads(text)["metrics"]["test"]["accuracy"] for text in texts]
        expected = mean_interval(scores)
        assert found.scores[dataset] == {
            name: getattr(expected, name) for name in ("mean", "n", "low", "high")
        }


@pytest.mark.parametrize(("unit", "setting"), [("node", "whole"), ("node-bounded", "bounded")])
def test_scores_are_of_cut_graphs_for_a_degree_bound_alone(unit: str, setting: str) -> None:
    found = advice_at_four(unit)
    measured = {
        (cell.dataset, cell.entry): cell.scores
        for cell in committed(study=MAIN_STUDY, swept=False)
        if (cell.setting, cell.epsilon) == (setting, "4")
    }
    both = ("dp_mlp-replace", "features", "dpar-gm", "dpar-em0")
    told = [one for one in found.advised if one.entry in both]
    assert len(told) == len(both)
    for one in told:
        for dataset, scores in one.scores.items():
            assert scores["mean"] == mean_interval(measured[dataset, one.entry]).mean
    assert {one.setting for one in told} == {setting}
    cut = [one.entry for one in found.advised if one.setting == "bounded"]
    assert ({*both} <= {*cut}) == (unit == "node-bounded")
    line = f"On these graphs cut to a degree bound ran {', '.join(cut)}."
    assert (line in str(found)) == (unit == "node-bounded")
    assert ("cut to a degree bound" in str(found)) == (unit == "node-bounded")


def test_noise_is_that_of_the_entrys_own_plan_for_the_asked_graph(node: Advice) -> None:
    for advised in node.advised:
        assert advised.claim is not None
        assert advised.claim.status == "proved"
        assert advised.claim.epsilon <= 4.0
        assert advised.claim.delta == pytest.approx(1 / 27080)
    (found,) = [one for one in node.advised if one.entry == "dp_mlp"]
    steps = found.options["training"]["num_steps"]
    options = strict.stated(strict.read(methods.get("dp_mlp").config, dict(found.options)))
    asked = dpgnn.account(
        "DP-MLP", delta=1 / 27080, nodes=2708, epsilon=4, num_steps=steps, unit="node",
        relation="add-remove", options=options,
    )  # fmt: skip
    shown = asked.shown
    assert found.noise == {"train": shown.noise_stddev / shown.sensitivity}
    fewer = dpgnn.advise(**CORA, epsilon=4, unit="node", training=2000)
    (same,) = [one for one in fewer.advised if one.entry == "dp_mlp"]
    assert same.noise["train"] > found.noise["train"]


@pytest.mark.parametrize("unit", ["edge", "node-record", "node-features"])
def test_only_what_protects_the_unit_is_advised(unit: str) -> None:
    found = advice_at_three(unit)
    assert found.epsilon == "4"
    relations = ("add-remove", "replace-one", "null-one")
    for one in found.advised:
        if one.claim is not None:
            assert any(
                notion_implies(notion(one.claim), Notion(privacy_unit=unit, relation=relation))  # type: ignore[arg-type]
                for relation in relations
            )
    entries = {one.entry for one in found.advised}
    assert ("gap" in entries) == (unit == "edge")
    assert ("votes" in entries) == (unit == "node-record")


def test_answers_that_may_be_shown_come_first_and_the_best_score_first(node: Advice) -> None:
    keys = []
    for one in node.advised:
        mean = math.fsum(score["mean"] for score in one.scores.values()) / len(one.scores)
        keys.append((one.answers == "none", -len(one.scores), -mean))
    assert keys == sorted(keys)
    assert node.advised[0].entry == "dp_mlp"


def test_an_entry_without_a_plan_for_the_graph_says_why() -> None:
    found = dpgnn.advise(nodes=40, edges=60, classes=2, epsilon=0.01, unit="edge")
    without = [one for one in found.advised if one.reason]
    assert all(one.claim is None and not one.noise for one in without)
    assert found.advised[-len(without) :] == tuple(without)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"nodes": 1}, "nodes must be >= 2"),
        ({"edges": -1}, "edges must be >= 0"),
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"unit": "person"}, "unknown unit 'person'"),
        ({"relation": "null-one", "unit": "edge"}, "unknown relation of unit edge 'null-one'"),
        ({"training": 3000}, "training must be <= nodes, 2708, got 3000"),
        ({"delta": 0.01}, "delta must be < 0.0003693, one over the 2708 nodes"),
        ({"delta": 2.0}, "delta must be in"),
        ({"nodes": 20, "edges": 401}, "edges must be <= 400, all pairs of 20 nodes"),
        (
            {"degree_bound": 2},
            "degree_bound must be given with unit node-bounded alone, got 'unit node'",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Asked(**{**CORA, "epsilon": 4.0, "unit": "node", **changed})  # type: ignore[arg-type]


def test_the_command_prints_what_the_function_gives(
    node: Advice, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--nodes", "2708", "--edges", "5278", "--classes", "7", "--epsilon", "4"]
    assert main(["advise", *flags, "--json"]) == 0
    printed = capsys.readouterr()
    values = json.loads(printed.out)
    number = len(node.advised)
    assert f"advise: plan: {number}/{number} " in printed.err.splitlines()[-1]
    assert [one["entry"] for one in values["advised"]] == [one.entry for one in node.advised]
    assert values["advised"][0]["noise"] == dict(node.advised[0].noise)
    assert main(["advise", *flags]) == 0
    first = capsys.readouterr().out.splitlines()
    row, to_copy = (line for line in first if line.startswith("dp_mlp  "))
    mean = node.advised[0].scores["cora"]["mean"]
    assert f"{100 * mean:.1f} [" in row
    assert f"train {node.advised[0].noise['train']:.3g}" in row
    tells(str(node), row, MAIN_STUDY, to_copy)


def options_to_copy() -> dict[tuple[str, str, str], dict[str, str]]:
    """(setting, epsilon, entry) -> row of the committed table."""
    text = (ROOT / MAIN_STUDY / "tables" / "options.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return {(row["setting"], row["epsilon"], row["entry"]): row for row in rows}


def test_options_to_copy_are_told_beside_the_methods(node: Advice) -> None:
    rows = options_to_copy()
    told = {
        line.split()[0]: line
        for line in str(node).partition("costs no privacy.")[2].split("\n")
        if line
    }
    for one in node.advised:
        row = rows.get(("whole", node.epsilon, one.entry))
        assert [one.copied is None, one.entry not in told] == 2 * [row is None], one.entry
        if one.copied is None or row is None:
            continue
        assert dict(one.copied.options) == json.loads(row["changed"])
        assert one.copied.gain == float(row["gain_mean"])
        for name, value in one.copied.options.items():
            assert f"{name}={value}" in told[one.entry]
        assert f"{100 * one.copied.gain:+.1f} [" in told[one.entry]
    assert {one.entry for one in node.advised if one.copied is not None} >= {"dp_mlp", "dpar-em0"}


def test_the_entrys_options_with_the_copied_ones_are_those_of_the_point(repository: Path) -> None:
    entries = load_study(repository / "workflow" / "studies" / f"{MAIN_STUDY}.yaml", "M").entries
    found = copied_options()
    assert found.keys() == options_to_copy().keys()
    for (setting, epsilon, name), row in options_to_copy().items():
        entry, point = entries[name], entries[f"{name}~{row['point']}"]
        copied = nested(found[setting, epsilon, name].options)
        config = methods.get(entry.method).config
        made = strict.read(config, merge(entry.options, copied))
        assert made == strict.read(config, point.options)


def test_without_committed_tables_nothing_is_to_copy(tmp_path: Path) -> None:
    assert copied_options(tmp_path) == {}
