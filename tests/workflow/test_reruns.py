"""A change reruns exactly what it touches."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import whole
import yaml
from helpers import (
    TOY,
    copy_repository,
    dry_run,
    jobs_of,
    planned,
    records,
    run_tool,
    write_study,
)

RESOURCES = "results/studies/quick/runs/**/resources.json"


def changed(**paths: Any) -> dict[str, Any]:
    """The toy study with values set by dotted path (dots written as two underscores)."""
    study = copy.deepcopy(TOY)
    for path, value in paths.items():
        *folders, last = path.split("__")
        part = study
        for folder in folders:
            part = part.setdefault(folder, {})
        part[last] = value
    return study


def test_the_whole_study_ran_from_graph_to_report(toy: Path) -> None:
    assert set(records(toy)) == {
        "chains-s.public/mlp/eps=inf/0/record.json",
        "chains-s.public/dp_mlp/eps=1/0/record.json",
        "chains-s.public/dp_mlp/eps=8/0/record.json",
    }
    assert (toy / "results" / "report.html").stat().st_size > 10_000
    assert any((toy / "results/studies/quick/tables").glob("*.csv"))
    assert any((toy / "results/studies/quick/figures").glob("*.svg"))
    assert whole.leftovers(toy) == []


def test_nothing_changed_reruns_nothing(toy: Path) -> None:
    assert planned(toy) == {}


@pytest.mark.parametrize("runs_per_job", [1, 9])
def test_another_device_reruns_nothing(fresh_toy: Path, runs_per_job: int) -> None:
    if runs_per_job > 1:
        write_study(fresh_toy, changed(runs_per_job=runs_per_job))
        run_tool(fresh_toy, "snakemake", "--cores", "1", "runs")
    assert planned(fresh_toy, "--config", "device=cuda", "--", "runs") == {}


def test_a_comment_or_another_order_of_keys_reruns_nothing(fresh_toy: Path) -> None:
    text = (fresh_toy / "config.yaml").read_text()
    (fresh_toy / "config.yaml").write_text("# a comment\n" + text)
    clipping = fresh_toy / "dpgnn" / "training" / "clipping.py"
    clipping.write_text("# a comment\n" + clipping.read_text())
    write_study(fresh_toy, dict(reversed(TOY.items())))
    assert planned(fresh_toy) == {}


@pytest.mark.parametrize(
    ("study", "jobs"),
    [
        (changed(entries__dp_mlp__options__width=5), {"train": 2, "report": 1, "joined_report": 1}),
        (changed(epsilons=["1", "4", "8"]), {"train": 1, "report": 1, "joined_report": 1}),
        (changed(epsilons=["1"]), {"report": 1, "joined_report": 1}),
        (changed(title="Another title"), {"report": 1, "joined_report": 1}),
        (changed(repeats=2), {"split": 1, "train": 3, "report": 1, "joined_report": 1}),
        (changed(root_seed=2), {"train": 3, "report": 1, "joined_report": 1}),
    ],
    ids=["one option", "one more epsilon", "one epsilon fewer", "title", "one more repeat", "seed"],
)
def test_a_changed_study_reruns_what_uses_the_value(
    toy: Path, study: dict[str, Any], jobs: dict[str, int]
) -> None:
    write_study(toy, study)
    try:
        assert planned(toy) == jobs
    finally:
        write_study(toy, TOY)


def test_where_a_process_makes_many_runs_a_cell_and_one_more_budget_make_theirs_alone(
    fresh_toy: Path,
) -> None:
    def texts() -> dict[str, str]:
        return {path.parts[-3]: path.read_text() for path in fresh_toy.glob(RESOURCES)}

    def ask(budget: str) -> str:
        """Make one cell by the command; what it prints."""
        words = ("--cell", f"chains-s.public/dp_mlp/eps={budget}", "--", "--cores", "1")
        said = run_tool(fresh_toy, "python", "-m", "dpgnn", "run", "quick", *words)
        assert "study quick, tier S: 1 run" in said.stderr
        return said.stdout.strip()

    # a cell of a study that is not made: the other new budget stays unmade
    before = texts()
    shared = changed(runs_per_job=9)
    write_study(fresh_toy, shared | {"epsilons": ["1", "2", "4", "8"]})
    line = ask("4")
    assert re.fullmatch(r"chains-s\.public/dp_mlp/eps=4: ours \d+\.\d \(n 1\)", line), line
    of_cell = texts()
    assert of_cell.keys() - before.keys() == {"eps=4"}
    # the whole study takes the run as it was made
    run_tool(fresh_toy, "snakemake", "--cores", "1", "runs")
    made = texts()
    assert made.keys() == {"eps=1", "eps=2", "eps=4", "eps=8", "eps=inf"}
    assert made["eps=4"] == of_cell["eps=4"]
    assert planned(fresh_toy, "runs") == {}
    # one more budget makes one run
    write_study(fresh_toy, shared | {"epsilons": ["1", "2", "4", "6", "8"]})
    run_tool(fresh_toy, "snakemake", "--cores", "1")
    more = texts()
    assert more.keys() - made.keys() == {"eps=6"}
    assert more | made == more
    assert len(records(fresh_toy)) == 6
    assert planned(fresh_toy) == {}
    # a cell that is made is made again, alone
    ask("6/0")
    again = texts()
    assert {budget for budget in more if again[budget] != more[budget]} == {"eps=6"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_of_several_graphs_that_is_stopped_keeps_its_runs(
    tmp_path: Path, number: signal.Signals
) -> None:
    datasets = {name: {"settings": ["public"]} for name in ("chains-s", "chains-50")}
    study = changed(datasets=datasets, repeats=3, runs_per_job=100)
    folder = copy_repository(tmp_path / "toy")
    write_study(folder, study)
    process = whole.start(folder, "--target", "runs", "--", "--cores", "1")
    kept = folder / "work" / "finished" / "quick"
    while process.poll() is None and len(list(kept.rglob("record.json"))) < 3:
        time.sleep(0.01)
    os.killpg(process.pid, number)
    said, _ = process.communicate()
    before = {path.relative_to(kept): path.read_text() for path in kept.rglob("resources.json")}
    assert 3 <= len(before) < 18
    if number == signal.SIGINT:
        found = re.search(r"Stopped by you; (\d+) of 18 runs done; the same command goes on", said)
        assert found is not None, said
        assert 3 <= int(found[1]) <= len(before)
    whole.finish(folder, "--target", "runs")
    runs = folder / "results" / "studies" / "quick" / "runs"
    assert {path: (runs / path).read_text() for path in before} == before
    assert len(records(folder)) == 18


def test_a_comment_in_the_lock_file_reruns_nothing_and_a_pin_reruns_every_job(
    fresh_toy: Path,
) -> None:
    lock = fresh_toy / "envs" / "cpu.lock"
    text = lock.read_text()
    lock.write_text("# a comment\n\n" + text.replace("\nnumpy==", "  # another\nnumpy==") + "\n")
    run_tool(fresh_toy, "python", "envs/generate.py")
    assert planned(fresh_toy) == {}
    lock.write_text(text.replace("\nnumpy==", "\nnumpy==9"))
    assert planned(fresh_toy)["train"] == 3


def test_each_repeat_of_an_audit_is_a_job_of_its_own_on_its_own_split(fresh_toy: Path) -> None:
    write_study(fresh_toy, TOY | {"audits": True, "repeats": 2, "audit_repeats": 2})
    text = dry_run(fresh_toy, "-p")
    made = re.findall(r"dpgnn audit .*--epsilon (\d) --repeat (\d) .*--out (\S+)", text)
    assert {(epsilon, repeat, out.rpartition("/")[2]) for epsilon, repeat, out in made} == {
        (epsilon, repeat, f"chains-s.public.dp_mlp.eps={epsilon}{again}.json")
        for epsilon in TOY["epsilons"]
        for repeat, again in (("0", ""), ("1", ".repeat=1"))
    }
    (second,) = (
        part
        for part in text.split("rule audit:")
        if "again=.repeat=1" in part[:2000] and "epsilon=8," in part[:2000]
    )
    assert "results/splits/chains-s.public.1.parquet" in second.partition("output:")[0]


def test_a_study_file_may_have_a_space_in_its_name(fresh_toy: Path) -> None:
    study = TOY | {"audits": True, "attacks": True}
    (fresh_toy / "my study.yaml").write_text(yaml.safe_dump(study))
    text = dry_run(fresh_toy, "-p", "--config", "study=my study.yaml")
    commands = set(re.findall(r"python -m dpgnn (\w+) --study (.*\.yaml'?) ", text))
    assert commands == {
        (name, "'my study.yaml'") for name in ("train", "audit", "attack", "report")
    }


def test_editing_the_clipping_code_reruns_private_runs_only(fresh_toy: Path) -> None:
    clipping = fresh_toy / "dpgnn" / "training" / "clipping.py"
    clipping.write_text(clipping.read_text() + "\n\nUNUSED = 1\n")
    text = dry_run(fresh_toy)
    assert jobs_of(text) == {"train": 2, "report": 1, "joined_report": 1}
    assert "entry=mlp" not in text


def test_the_same_study_gives_the_same_bytes(fresh_toy: Path) -> None:
    before = records(fresh_toy)
    tables = {
        p.name: p.read_bytes() for p in (fresh_toy / "results/studies/quick/tables").iterdir()
    }
    page = "results/studies/quick/report.html"
    run_tool(fresh_toy, "snakemake", "--cores", "2", "--forceall", page)
    assert records(fresh_toy) == before
    for name, content in tables.items():
        if name.startswith("cost"):
            continue  # seconds and memory
        assert (fresh_toy / "results/studies/quick/tables" / name).read_bytes() == content, name


def test_a_wrong_study_stops_before_the_first_job(fresh_toy: Path) -> None:
    write_study(fresh_toy, changed(entries__dp_mlp__options__widht=5))
    result = run_tool(fresh_toy, "snakemake", "--cores", "1", check=False)
    assert result.returncode != 0
    message = "entries.dp_mlp.options.widht is not a known key; did you mean width?"
    assert message in result.stdout + result.stderr


def test_a_failing_run_shows_its_cause(fresh_toy: Path) -> None:
    meta = fresh_toy / "results" / "graphs" / "chains-s" / "nodes.parquet"
    data = bytearray(meta.read_bytes())
    data[len(data) // 3] ^= 1
    meta.write_bytes(bytes(data))
    run = "chains-s.public/mlp/eps=inf/0"
    result = run_tool(
        fresh_toy, "python", "-m", "dpgnn", "train", "--study", "config.yaml", "--run", run,
        check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "nodes.parquet must have sha256" in result.stderr
    record = fresh_toy / "results/studies/quick/runs" / run / "record.json"
    assert json.loads(record.read_text())["status"] == "ok"  # the old record is untouched
