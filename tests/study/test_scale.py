"""Estimates for large graphs: the plan is DP-GNN's own, the rest follows from stated sizes and rates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpgnn.__main__ import main
from dpgnn.study.scale import Asked, estimate, known

GRAPH = {
    "num_nodes": 1_000_000, "num_arcs": 9_000_000, "num_features": 50, "num_classes": 3,
    "num_train": 20_000, "bytes_a_number": 4, "directed": True, "source": "a test",
}  # fmt: skip
RATES = {
    "graph_arcs": {"value": 1e4, "unit": "arcs/s", "measured": "here"},
    "graph_numbers": {"value": 5e3, "unit": "numbers/s", "measured": "here"},
    "sample_arcs": {"value": 2.5e3, "unit": "arcs/s", "measured": "here"},
    "graph_bytes": {"value": 2.0, "unit": "bytes/arc", "measured": "here"},
    "step_rows": {
        "value": 5.0, "unit": "rows/s", "measured": "here", "num_features": 100, "num_parameters": 1e5,
    },
}  # fmt: skip


def told(tmp_path: Path, rates: Any, **more: Any) -> str:
    """The estimate for a made-up graph."""
    path = tmp_path / "scale.yaml"
    path.write_text(yaml.safe_dump({"graphs": {"g": GRAPH}, "rates": rates}))
    asked = {"graph": "g", "batch_size": 500, "epochs": 2, "cores": 10, "max_degree": 3} | more
    return estimate(Asked(**asked), path)


def row(text: str, what: str) -> tuple[str, str]:
    """The two numbers of a line."""
    found = re.search(rf"^{what}\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    assert found, what
    return found[1], found[2]


def test_hours_and_gigabytes_follow_from_sizes_and_rates(tmp_path: Path) -> None:
    text = told(tmp_path, RATES, network_gbit=1e9)
    assert row(text, "raw arcs to graph, h") == (
        "0.25",
        "0.25",
    )  # one process, on eight nodes as well
    assert row(text, "raw features to graph, h") == ("2.78", "2.78")  # 5e7 numbers
    assert row(text, "own-list sample, h") == ("0.1", "0.013")  # 1 h of one thread
    # 80 steps of 500 roots with 1 + 9 rows of half the features: 2e5 rows at 5 rows/s and thread
    assert row(text, "training, h") == ("1.11", "0.14")
    assert row(text, "features on disk, GB") == ("0.2", "0.2")
    assert row(text, "arcs on disk, GB") == ("0.018", "0.018")
    assert "1/s" not in text
    assert "80 steps of 500 roots (2 epochs)" in text


def test_sums_that_cross_the_network_are_counted(tmp_path: Path) -> None:
    fast, slow = (
        float(row(told(tmp_path, RATES, network_gbit=speed), "training, h")[1])
        for speed in (1e9, 1e-4)
    )
    # 80 steps, each of 16 times 4 bytes of 5e4 parameters, at 12.5 kB/s
    assert slow - fast == pytest.approx(80 * 16 * 4 * 5e4 / 1.25e4 / 3600, rel=0.01)


def test_what_was_not_measured_is_unknown(tmp_path: Path) -> None:
    text = told(tmp_path, {})
    assert text.count("unknown       unknown   not measured") == 6
    assert "one GPU: not measured" in text


def test_steps_and_noise_are_those_of_the_account(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "estimate", "ogbn-papers100M", "--epochs", "3", "--delta", "1e-8"]) == 0
    told = capsys.readouterr().out
    found = re.search(r"([\d,]+) steps of 10,000 roots .* noise multiplier ([\d.]+)", told)
    assert found
    steps = found[1].replace(",", "")
    words = ["--delta", "1e-8", "--target-epsilon", "8", "--num-steps", steps, "--json"]
    sizes = ["--num-train-nodes", "1207179", "--batch-size", "10000", "--max-degree", "7"]
    assert main(["account", "dp_gnn", *words, *sizes, "--num-hops", "1"]) == 0
    answered = json.loads(capsys.readouterr().out)
    assert f"{answered['noise_multiplier']:.4g}" == found[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["arxiv"],
            "graph must be one of mag240m, ogbn-papers100M, ogbn-products, got 'arxiv'; add",
        ),
        (["mag240m", "--epochs", "0"], "--epochs must be >= 1, got 0"),
        (["mag240m", "--batch-size", "2000000"], "--batch-size must be at most the training nodes"),
        (["mag240m", "--network-gbit", "0"], "--network-gbit must be > 0"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "estimate", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_every_rate_says_where_it_was_measured() -> None:
    facts = known()
    for rate in facts["rates"].values():
        assert rate["value"] > 0
        assert rate["unit"]
        assert "python -m benchmarks" in rate["measured"]
    assert all(graph["source"] for graph in facts["graphs"].values())
