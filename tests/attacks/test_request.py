"""The command, what it keeps, and what the report makes of its files."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import TOY, numbers, tells

from dpgnn.__main__ import main
from dpgnn.attacks.request import ATTACKS, Sizes
from dpgnn.audits import one_run
from dpgnn.cli import attack as attack_command
from dpgnn.cli.run import forget_copies
from dpgnn.core.checksums import write_checksums
from dpgnn.core.storage import read_json, write_json
from dpgnn.data.splits import read_split, write_split
from dpgnn.records.attacks import AttackResult, read_attacks, result_from
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import attack_figure
from dpgnn.report.tables import attack_pivots, attacks
from dpgnn.report.tables import attack_verdicts as verdicts
from dpgnn.report.tables.table import to_csv, to_markdown
from dpgnn.study import workflow
from dpgnn.study.study import load_study

RUN = "chains-s.public/lapgraph/eps=1/0"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a toy study, its graph and its split."""
    study: dict[str, Any] = copy.deepcopy(TOY)
    study["entries"]["lapgraph"] = {
        "method": "lapgraph", "mode": "sound", "privacy_unit": "edge", "relation": "add-remove",
        "options": {"gcn": {"hidden": [4], "training": {"num_epochs": 3}}},
    }  # fmt: skip
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.chdir(tmp_path)
    for command in (
        "data prepare chains-s --out results/graphs/chains-s --root-seed 0",
        "split --graph results/graphs/chains-s --dataset chains-s --setting public --repeat 0"
        " --root-seed 1 --kind public --out results/splits/chains-s.public.0.parquet",
    ):
        assert main(command.split()) == 0
    return tmp_path


def test_the_command_writes_one_file_per_run_and_attack_and_keeps_what_stands(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        f"attack --study config.yaml --run {RUN} --attacks linkteller,leak --nodes 30 --pairs 20"
        " --fresh-pairs 4"
    ).split()
    assert main(command) == 0
    out = folder / "results" / "studies" / "quick" / "attacks"
    names = sorted(path.name for path in out.iterdir())
    stem = "chains-s.public.lapgraph.eps=1.0"
    kinds = ("leak", "linkteller")
    assert names == [f"{stem}.{kind}.{suffix}" for kind in kinds for suffix in ("json", "sha256")]
    before = [(out / name).read_bytes() for name in names]
    assert {r["status"] for r in read_json(out / f"{stem}.linkteller.json")["results"]} == {"ok"}
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().err.count(": kept") == 2
    for name in names:
        (out / name).unlink()
    assert main(command) == 0
    assert [(out / name).read_bytes() for name in names] == before  # times are only printed
    assert re.search(r"AUC \S+, \d+\.\d s$", capsys.readouterr().err, re.MULTILINE)
    assert main([*command[:-1], "0"]) == 0
    assert "kept" not in capsys.readouterr().err

    found = read_attacks(out)
    table = attacks.attacks_table(found)
    assert len(table.rows) == len(found)
    assert "LinkTeller, held-out edges" in to_markdown(table)
    assert to_csv(table).count("\n") == len(found) + 1
    bounds = [verdicts.lower_bound(result) for result in found]
    # a perturbed graph is released once: what is read off it is covered
    assert any(bound is not None for bound in bounds)
    assert len(attacks.as_audits(found)) == sum(bound is not None for bound in bounds)


def test_an_attack_that_snakemake_removed_comes_back_from_its_copy(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (
        f"attack --study config.yaml --run {RUN} --attacks leak --work work --runs 60 --steps 2"
    ).split()
    out = folder / "results" / "studies" / "quick" / "attacks"
    copied = folder / "work" / "attacks" / "quick" / "chains-s.public.lapgraph.eps=1.0.leak.json"
    made: list[str] = []
    real = attack_command._made
    monkeypatch.setattr(attack_command, "_made", lambda *args: made.append("") or real(*args))

    def attacked() -> tuple[int, dict[str, bytes]]:
        """How many attacks were made, and the files, after Snakemake removed them."""
        made.clear()
        for path in out.glob("*.json"):
            path.unlink()
        assert main(command) == 0
        return len(made), {path.name: path.read_bytes() for path in out.iterdir()}

    count, files = attacked()
    assert (count, len(files)) == (1, 2)
    assert attacked() == (0, files)
    # a damaged copy, another size or other code that writes the file, and a forced run are no use
    copied.write_bytes(copied.read_bytes().replace(b"ok", b"no", 1) + b" ")
    assert attacked() == (1, files)
    command[-1] = "1"
    assert attacked()[0] == 1
    with monkeypatch.context() as patch:
        patch.setattr(attack_command, "_own_code", lambda: "another")
        assert attacked()[0] == 1
    assert attacked()[0] == 1
    assert attacked()[0] == 0
    study = load_study(Path("config.yaml"))
    forget_copies(study, [key for key in study.keys if key.folder == RUN], Path())
    assert attacked()[0] == 1


def test_missing_inputs_of_any_run_stop_the_command_before_it_writes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = "chains-s.public/lapgraph/eps=1/1"
    assert main(f"attack --study config.yaml --run {RUN} --run {absent}".split()) == 1
    message = capsys.readouterr().err
    tells(message, "chains-s.public.1.parquet", "chains-s.public/lapgraph/eps=1/1")
    assert "--until split" in message
    assert not (folder / "results" / "studies").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--dataset chainz", "unknown data set 'chainz'; known: chains-s"),
        ("--entry lapgraf", "unknown entry 'lapgraf'; known: "),
        (f"--run {RUN} --entry mlp", "runs to attack must be at least one of tier"),
    ],
)
def test_names_the_study_does_not_have_are_errors(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    assert main(f"attack --study config.yaml {flags}".split()) == 1
    assert message in capsys.readouterr().err


def test_a_model_of_other_options_is_not_attacked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"attack --study config.yaml --run {RUN} --attacks linkteller --sets unbalanced"
    command = f"{command} --nodes 20 --fresh-pairs 0"
    out = folder / "results/studies/quick/attacks/chains-s.public.lapgraph.eps=1.0.linkteller.json"

    def attacked() -> tuple[str, Any]:
        capsys.readouterr()
        assert main(command.split()) == 0
        return capsys.readouterr().err, read_json(out)

    _, fitted = attacked()
    assert main(f"train --study config.yaml --run {RUN}".split()) == 0
    said, from_disk = attacked()
    assert "kept" not in said
    assert "fitted again" not in said
    assert from_disk["fingerprint"] != fitted["fingerprint"]
    # the same draws give the same model
    assert from_disk["results"][0]["auc"] == fitted["results"][0]["auc"]
    assert "kept" in attacked()[0]

    study = yaml.safe_load((folder / "config.yaml").read_text())
    study["entries"]["lapgraph"]["options"]["gcn"]["training"]["num_epochs"] = 4
    (folder / "config.yaml").write_text(yaml.safe_dump(study))
    said, again = attacked()
    tells(said, "chains-s.public/lapgraph/eps=1/0", "options")
    assert again["fingerprint"] != from_disk["fingerprint"]
    assert "kept" in attacked()[0]


def test_a_split_written_anew_is_attacked_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"attack --study config.yaml --run {RUN} --attacks leak --pairs 20".split()
    assert main(command) == 0
    path = folder / "results/splits/chains-s.public.0.parquet"
    split = read_split(path)
    other = dataclasses.replace(split, test_idx=split.test_idx[:-1])
    write_split(path, other, num_nodes=48)
    write_checksums(path.with_suffix(".sha256"), [path])
    capsys.readouterr()
    assert main(command) == 0
    assert "kept" not in capsys.readouterr().err


def test_tables_stand_in_their_blocks_of_a_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "results" / "studies" / "quick" / "attacks"
    write_json(out / "a.json", {"results": [HUB], **HUB})
    page = folder / "page.md"
    page.write_text("before\n\n<!-- attacks leaks -->\nold\n<!-- end -->\n\nafter\n")
    command = ["attack", "--study", "config.yaml", "--page", str(page)]
    assert main(command) == 0
    text = page.read_text()
    assert "old" not in text
    assert (
        "hub behind the sampler, 200 nodes | 120 | 0.900 | 1.50 (level 0.01) | 1.64 | exceeds |"
        in text
    )
    assert text.startswith("before\n\n<!-- attacks leaks -->")
    assert text.endswith("<!-- end -->\n\nafter\n")
    assert main(command) == 0
    assert page.read_text() == text
    page.write_text("no block\n")
    assert main(command) != 0
    tells(capsys.readouterr().err, "<!-- attacks NAME -->", "<!-- end -->", "'none'")


def test_sizes_are_what_the_flags_say() -> None:
    parser = argparse.ArgumentParser()
    attack_command.add_parser(parser.add_subparsers())
    flags = {"hubs": "20,30", "steps": "4", "runs": "9", "sets": "low,high", "nodes": "7"}
    words = ["attack", "--study", "s.yaml", *(f"--{name}={value}" for name, value in flags.items())]
    sizes = attack_command.sizes_of(parser.parse_args(words))
    assert (sizes.hubs, sizes.num_steps, sizes.num_runs) == ((20, 30), 4, 9)
    assert (sizes.sets, sizes.num_nodes) == (("low", "high"), 7)
    assert sizes.num_pairs == Sizes().num_pairs


def test_a_curve_is_drawn_over_the_whole_axis() -> None:
    # all scores equal: a coin decides, which is the line of equality
    points = attack_figure.curve_points([[1.0, 1.0]])
    assert points[0][0] == pytest.approx(1e-3)
    assert all(true == pytest.approx(false) for false, true in points)
    perfect = attack_figure.curve_points([[0.0, 1.0], [1.0, 1.0]])
    assert {true for _, true in perfect} == {1.0}


def test_the_workflow_knows_the_attacks_of_the_library() -> None:
    assert set(workflow.ATTACKS) == set(ATTACKS)


LINKTELLER: dict[str, Any] = {
    "attack": "linkteller", "pair_set": "held-out", "status": "ok", "auc": 0.9,
    "num_members": 500, "num_others": 500, "claim": {"epsilon": 1.0, "delta": 1e-5},
    "key": {"dataset": "a", "setting": "b", "entry": "c", "epsilon": "1", "repeat": 0},
    "one_run": {"epsilon_lower_bound": 2.0, "num_canaries": 1000, "num_guesses": 250,
                "delta": 1e-5, "confidence": 0.999},
    "claim_covers_answers": True,
    "curve": [[0.1, 0.5], [1.0, 1.0]],
    "rates": [], "claimed_epsilon": 1.0, "exceeds_claim": True, "line": {"level": 0.001},
}  # fmt: skip
HUB = {name: value for name, value in LINKTELLER.items() if name != "one_run"} | {
    "attack": "hub", "hub_degree": 200, "num_members": 60, "num_others": 60, "title": "T",
    "mode": "published", "line": {"level": 0.01, "epsilon_lower_bound": 1.5},
}  # fmt: skip


def result(**fields: Any) -> AttackResult:
    return result_from(LINKTELLER | fields)


def test_only_what_a_claim_covers_counts_as_measured() -> None:
    assert verdicts.lower_bound(result()) == 2.0
    assert verdicts.verdict(result()) == "exceeds the claim"
    uncovered = result(claim_covers_answers=False, exceeds_claim=False)
    assert verdicts.lower_bound(uncovered) is None
    assert verdicts.verdict(uncovered) == "not about the claim"
    # two nodes exchanged under add-remove are two changes
    twice = result(one_run_allowed_epsilon=2.0)
    assert verdicts.lower_bound(twice) == 1.0
    assert verdicts.line_of(result()) == (1.0, 1e-5)
    assert verdicts.line_of(twice) == (2.0, 1e-5)
    stated = result(line={"level": 0.001, "epsilon": 2.5, "delta": 0.1})
    assert verdicts.line_of(stated) == (2.5, 0.1)


def test_a_test_that_perfect_guesses_could_not_fail_cannot_say() -> None:
    small = result(exceeds_claim=False)
    assert verdicts.verdict(small) == "within the claim"
    shown = one_run.lower_bound(1000, 250, 250, delta=1e-5, level=0.001)
    assert verdicts.detects(small) == pytest.approx(shown)
    large = result(exceeds_claim=False, claimed_epsilon=8.0)
    assert verdicts.verdict(large).startswith("cannot say")
    assert numbers(verdicts.verdict(large)) == [1000, round(shown, 2)]
    assert verdicts.short_verdict(large) == "cannot say"
    # what was recorded goes before what is computed, and is halved where two changes were tested
    stated = result(exceeds_claim=False, detects=1.5, one_run_allowed_epsilon=2.0)
    assert verdicts.verdict(stated).startswith("cannot say")
    assert numbers(verdicts.verdict(stated)) == [1000, 0.75]
    # 60 of each world at level 0.01: half of them test
    hub = result_from(HUB | {"exceeds_claim": False})
    low = 0.005 ** (1 / 30)
    assert verdicts.detects(hub) == pytest.approx(math.log(low / (1 - low)))
    assert verdicts.verdict(hub) == "within the claim"
    higher = replace(hub, claimed_epsilon=2.0)
    assert verdicts.verdict(higher).startswith("cannot say (120 trials")
    assert verdicts.verdict(replace(small, untested="too few")) == "not tested: too few"


def test_a_classifier_that_says_nothing_is_shown_as_none() -> None:
    same = result(
        attack="gmia", variant="same-graph", exceeds_claim=False, auc=0.5, script_auroc=0.5
    )
    constant = replace(same, curve=[[0.0, 0.0], [1.0, 1.0]])
    assert verdicts.has_scorer(same)
    assert not verdicts.has_scorer(constant)
    assert not verdicts.has_scorer(replace(same, scorer="constant"))
    assert verdicts.has_scorer(replace(constant, scorer="trained"))
    assert verdicts.verdict(constant) == "cannot say (no scorer)"
    rows = to_markdown(attacks.attacks_table([constant]))
    assert "no scorer" in rows.splitlines()[-1]
    assert attack_pivots._auc(constant) == "no scorer"


def test_the_figure_has_one_panel_per_attack_and_the_smallest_budget_of_each_entry() -> None:
    first = result()
    larger = replace(first, epsilon="8")
    other = result(attack="gmia", variant="same-graph", pair_set=None)
    unseen = result(pair_set="unbalanced")
    panels = attack_figure._panels([larger, first, other, unseen])
    assert list(panels) == ["a: LinkTeller, held-out edges", "a: G-MIA, same graph"]
    assert [r.epsilon for r in panels["a: LinkTeller, held-out edges"]] == ["1"]
    info = StudyInfo(name="s", tier="S", config_path="s.yaml", entries=(), planned=())
    (picture,) = attack_figure.draw_attacks([larger, first, other, unseen], info)
    assert picture is not None
    assert picture.png.startswith(b"\x89PNG")
    assert "claim of ε = 1" in picture.svg.decode()
    assert attack_figure.draw_attacks([unseen], info) == []


def test_a_file_of_another_form_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"results": []})
    with pytest.raises(ValueError, match="attack must name its run by"):
        read_attacks(tmp_path)
