from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from golden import assert_golden
from helpers import TOY, numbers

from dpgnn.core import locks
from dpgnn.core.checksums import OF_FOLDER, write_checksums
from dpgnn.core.paths import Paths
from dpgnn.core.storage import sha256_file, sha256_json, write_json
from dpgnn.records.archive import write_archive
from dpgnn.run.specification import config_of
from dpgnn.study import progress
from dpgnn.study.chunks import run_logs
from dpgnn.study.study import RunKey, Study, resolve
from dpgnn.study.wanted import Wanted, code_of
from dpgnn.study.workflow import attack_files

STUDY = resolve(TOY)
GROUPED = resolve({**TOY, "epsilons": ["1", "4", "8"], "runs_per_job": 2})


def stated(study: Study, key: RunKey) -> dict[str, str]:
    """What a run's record says of its configuration and code, if it is made now."""
    config = config_of(Wanted(study).inputs(key))
    return {"config_sha256": sha256_json(config), "code_sha256": code_of(study, key.entry)}


def finish(study: Study, number: int, root: Path, seconds: float) -> None:
    """Leave the record of a study's run as if it had taken some seconds."""
    folder = root / "results" / "studies" / study.name / "runs" / study.keys[number].folder
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(stated(study, study.keys[number])))
    (folder / "resources.json").write_text(json.dumps({"seconds": seconds}))
    for name in ("history.parquet", "model.safetensors"):
        (folder / name).touch()
    write_checksums(folder / OF_FOLDER, list(folder.iterdir()))


def write_log(study: Study, number: int, root: Path, text: str) -> Path:
    log = root / run_logs(study)[study.keys[number]]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    return log


def states(study: Study, root: Path) -> Counter[str]:
    """How many runs are in each state."""
    return Counter(progress.run_states(study, root=root).values())


def test_the_words_of_a_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    finish(STUDY, 0, tmp_path, 7200.0)
    write_log(STUDY, 1, tmp_path, "step 1\ndpgnn train: error: x must be finite\n")
    text = progress.status(STUDY, root=tmp_path)
    assert_golden("status.txt", text.replace(str(tmp_path), "ROOT") + "\n")


def test_an_estimate_takes_each_entrys_own_time(tmp_path: Path) -> None:
    assert "no time measured yet" in progress.estimate(STUDY, root=tmp_path)
    finish(STUDY, 0, tmp_path, 7200.0)
    text = progress.estimate(STUDY, root=tmp_path)
    (line,) = [row for row in text.splitlines() if row.startswith(f"  {STUDY.keys[0].dataset}:")]
    assert numbers(line.partition(":")[2]) == [3, 6.0, 2]  # runs, hours, guessed
    assert "about 6.00 hours" in text
    finish(STUDY, 1, tmp_path, 3600.0)
    finish(STUDY, 2, tmp_path, 1800.0)
    text = progress.estimate(STUDY, root=tmp_path)
    (line,) = [row for row in text.splitlines() if row.startswith(f"  {STUDY.keys[0].dataset}:")]
    assert numbers(line.partition(":")[2]) == [3, 3.5]
    assert "\n3.50 hours" in text


def test_an_estimate_in_a_fresh_folder_takes_the_committed_records_time(tmp_path: Path) -> None:
    archive = tmp_path / "docs" / "reference" / STUDY.name / "runs.parquet"
    texts = {key.folder: ("{}", json.dumps({"seconds": 3600.0})) for key in STUDY.keys}
    write_archive(archive, texts)
    assert "\n3.00 hours" in progress.estimate(STUDY, root=tmp_path)
    finish(STUDY, 0, tmp_path, 7200.0)
    assert "\n4.00 hours" in progress.estimate(STUDY, root=tmp_path)
    archive.write_bytes(archive.read_bytes()[:50])
    assert "about 6.00 hours" in progress.estimate(STUDY, root=tmp_path)


def test_a_graph_that_was_never_timed_is_scaled_by_its_size_and_steps(tmp_path: Path) -> None:
    """ogbn-products has 320 times the nodes of Photo and 520 times its edges; the private run takes its
    own steps.
    """
    from dpgnn.study.study import resolve
    from dpgnn.study.timings import Timings, counts_of

    entry = {"method": "dp_gnn", "mode": "nonprivate", "options": {"training": {"num_steps": 100}}}
    longer = {"extends": "short", "options": {"training": {"num_steps": 300}}}
    study = resolve({
        "name": "scaled", "repeats": 1, "epsilons": ["1"],
        "datasets": {"photo": {"settings": ["r"]}, "ogbn-products": {"settings": ["r"]}},
        "settings": {"r": {"kind": "random"}}, "entries": {"short": entry, "long": longer},
    })  # fmt: skip
    keys = {(key.dataset, key.entry): key for key in study.keys}
    texts = {keys["photo", "short"].folder: ("{}", json.dumps({"seconds": 10.0}))}
    write_archive(tmp_path / "docs" / "reference" / "scaled" / "runs.parquet", texts)
    times = Timings(study, tmp_path)
    size = {
        name: found["num_nodes"] * found["num_features"] + 64 * found["num_edges"]
        for name in ("photo", "ogbn-products")
        for found in [counts_of(name)]
    }
    ratio = size["ogbn-products"] / size["photo"]
    assert ratio > 100
    # 2 of the 10 seconds are imports, compilation and a plan
    assert times.of(keys["ogbn-products", "short"]) == pytest.approx(2 + 8 * ratio)
    assert times.of(keys["ogbn-products", "long"]) == pytest.approx(2 + 24 * ratio)
    assert times.source(keys["ogbn-products", "long"]) == "scaled"
    assert times.source(keys["photo", "long"]) == "guessed"
    text = progress.estimate(study, root=tmp_path)
    assert "ogbn-products: 2 runs, " in text
    assert "2 runs scaled" in text
    assert f"{(4 + 32 * ratio) / 3600:.2f} hours" in text


def test_what_a_run_on_a_toy_graph_costs_besides_it_is_not_scaled(tmp_path: Path) -> None:
    """Cora has 56 times the nodes of a graph of 48, and 760 times its numbers: a run took 2 to 3 seconds."""
    from dpgnn.study.timings import Timings

    toy = copy.deepcopy(TOY)
    toy["datasets"] |= {"cora": {"settings": ["public"]}}
    study = resolve(toy)
    keys = {(key.dataset, key.entry): key for key in study.keys}
    finish(study, study.keys.index(keys["chains-s", "mlp"]), tmp_path, 1.6)
    seconds = Timings(study, tmp_path).of(keys["cora", "mlp"])
    assert seconds is not None
    assert 1.6 < seconds < 6


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (119, "119 s"),
        (121, "2 minutes"),
        (359, "6 minutes"),
        (360, "0.10 hours"),
        (7200, "2.00 hours"),
    ],
)
def test_short_times_are_seconds_or_minutes(seconds: float, words: str) -> None:
    assert progress._long(seconds) == words


def test_status_and_estimate_count_audits_and_attacks(tmp_path: Path) -> None:
    (run, *_) = STUDY.keys
    config = dataclasses.replace(STUDY.config, attacks=(run.folder,))
    study = dataclasses.replace(STUDY, config=config)
    assert "attacks" not in progress.status(STUDY, root=tmp_path)
    assert "attacks: 0 of 3 done" in progress.status(study, root=tmp_path)
    assert numbers(progress.estimate(study, root=tmp_path).splitlines()[-1]) == [0, 3]
    made, broken, _ = attack_files(study, Paths())
    write_json(tmp_path / made, {})
    log = tmp_path / "logs" / "attack" / study.name / broken.with_suffix(".log").name
    log.parent.mkdir(parents=True)
    log.write_text("asked 1\ndpgnn attack: error: x must be finite\n")
    text = progress.status(study, root=tmp_path)
    assert "attacks: 1 of 3 done" in text
    assert f"failed: {broken.name} ({log}): dpgnn attack: error: x must be finite" in text


def test_status_counts_done_running_failed_left_and_hours(tmp_path: Path) -> None:
    _, failed, left = STUDY.keys
    finish(STUDY, 0, tmp_path, 7200.0)
    log = write_log(STUDY, 1, tmp_path, "step 1\ndpgnn train: error: x must be finite\n")
    assert states(STUDY, tmp_path) == {"done": 1, "failed": 1, "left": 1}
    text = progress.status(STUDY, root=tmp_path)
    assert f"failed: {failed.folder} ({log}): dpgnn train: error: x must be finite" in text
    assert "hours left on" in text
    with (
        locks.exclusive(progress.workflow_lock(tmp_path)),
        locks.exclusive(progress.run_lock(tmp_path / "work", STUDY.name, left.folder)),
    ):
        assert states(STUDY, tmp_path) == {"done": 1, "running": 1, "failed": 1}
    assert states(STUDY, tmp_path)["running"] == 0


def test_a_record_without_a_result_is_done_and_counted(tmp_path: Path) -> None:
    finish(STUDY, 0, tmp_path, 1.0)
    finish(STUDY, 1, tmp_path, 1.0)
    folder = tmp_path / "results" / "studies" / "quick" / "runs" / STUDY.keys[1].folder
    failed = {"status": "failed", "reason": "plan: too small"}
    (folder / "record.json").write_text(json.dumps(stated(STUDY, STUDY.keys[1]) | failed))
    (folder / OF_FOLDER).unlink()
    assert states(STUDY, tmp_path) == {"done": 2, "left": 1}
    text = progress.status(STUDY, root=tmp_path)
    assert f"no result: {STUDY.keys[1].folder}: plan: too small" in text
    lines = list(progress.empty_runs(STUDY.keys, STUDY, root=tmp_path))
    assert lines[0].startswith("1 run without a result")
    assert lines[1] == f"no result: {STUDY.keys[1].folder}: plan: too small"
    assert not list(progress.empty_runs(STUDY.keys[:1], STUDY, root=tmp_path))


def test_status_names_a_graph_a_split_and_a_sample_that_failed(tmp_path: Path) -> None:
    said = "dpgnn: error: x could not be fetched"
    for name in ("graph/chains-s", "split/chains-s.public.0", "prepare/chains-s.public.0/list-1"):
        log = tmp_path / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"{said}\n")
    made = (
        "graphs/chains-s",
        "splits/chains-s.public.0.parquet",
        "prepared/chains-s.public.0/list-1.parquet",
    )
    failed = [line for line in progress.status(STUDY, root=tmp_path).splitlines() if said in line]
    assert [line.split(" ")[:2] for line in failed] == [
        ["failed:", f"results/{name}"] for name in made
    ]
    # an old log of what is made now is no failure
    for name in ("graphs/chains-s/graph.json", *made[1:]):
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert said not in progress.status(STUDY, root=tmp_path)


def test_a_run_that_lacks_a_file_or_has_another_is_damaged(tmp_path: Path) -> None:
    for number in range(3):
        finish(STUDY, number, tmp_path, 3600.0)
    assert states(STUDY, tmp_path) == {"done": 3}
    runs = tmp_path / "results" / "studies" / STUDY.name / "runs"
    (runs / STUDY.keys[0].folder / "history.parquet").unlink()
    path = runs / STUDY.keys[2].folder / "model.safetensors"
    time = path.stat().st_mtime_ns
    path.write_bytes(b"x")
    os.utime(path, ns=(time, time))
    text = progress.status(STUDY, root=tmp_path)
    assert states(STUDY, tmp_path) == {"done": 1, "damaged": 2}
    assert f"damaged: {STUDY.keys[0].folder}: history.parquet missing" in text
    assert f"damaged: {STUDY.keys[2].folder}: model.safetensors changed" in text


FILES = ("history.parquet", "model.safetensors", "resources.json", "record.json")


@pytest.mark.parametrize("name", FILES)
def test_each_of_a_runs_four_files_is_looked_at(name: str, tmp_path: Path) -> None:
    finish(STUDY, 0, tmp_path, 3600.0)
    path = tmp_path / "results/studies" / STUDY.name / "runs" / STUDY.keys[0].folder / name
    whole = path.read_bytes()
    path.write_bytes(whole + b" ")
    assert states(STUDY, tmp_path)["damaged"] == 1
    path.unlink()
    # without its record a run was not made
    assert states(STUDY, tmp_path)["done"] == 0
    assert states(STUDY, tmp_path)["damaged"] == int(name != "record.json")
    path.write_bytes(whole)
    assert states(STUDY, tmp_path)["done"] == 1


def test_records_of_another_configuration_or_code_are_not_done(tmp_path: Path) -> None:
    for number in range(3):
        finish(STUDY, number, tmp_path, 3600.0)
    assert states(STUDY, tmp_path) == {"done": 3}
    toy = copy.deepcopy(TOY)
    toy["entries"]["dp_mlp"]["options"]["width"] = 5
    wider = resolve(toy)
    assert states(wider, tmp_path) == {"done": 1, "other": 2}
    assert "hours left on" in progress.status(wider, root=tmp_path)
    path = (
        tmp_path / "results" / "studies" / "quick" / "runs" / wider.keys[0].folder / "record.json"
    )
    path.write_text(json.dumps(stated(wider, wider.keys[0]) | {"code_sha256": "0" * 64}))
    assert states(wider, tmp_path) == {"other": 3}
    # one that is made again, or that failed, is not of the past
    with locks.exclusive(progress.run_lock(tmp_path / "work", "quick", wider.keys[1].folder)):
        write_log(wider, 2, tmp_path, "dpgnn train: error: x must be finite\n")
        assert states(wider, tmp_path) == {"other": 1, "running": 1, "failed": 1}


def test_a_run_that_would_be_a_second_release_is_refused_not_left(tmp_path: Path) -> None:
    releases = {**copy.deepcopy(TOY), "randomness": "release"}
    study = resolve(releases)
    private, plain = study.keys[1], study.keys[0]
    assert study.entries[private.entry].mode != "nonprivate" == study.entries[plain.entry].mode
    kept = tmp_path / "releases" / study.name / private.folder
    kept.mkdir(parents=True)
    record = stated(study, private) | {"status": "ok"}
    (kept / "record.json").write_text(json.dumps(record))
    assert states(study, tmp_path)["done"] == 1
    (kept / "record.json").write_text(json.dumps(record | {"code_sha256": "0" * 64}))
    other = tmp_path / "releases" / study.name / plain.folder
    other.mkdir(parents=True)
    (other / "record.json").write_text(json.dumps({"status": "ok"}))
    assert states(study, tmp_path) == {"released": 1, "left": 2}
    text = progress.status(study, root=tmp_path)
    assert f"refused: {private.folder}: released before, of another configuration" in text
    assert str(kept) in text


def test_a_run_killed_without_a_word_is_left_not_failed(tmp_path: Path) -> None:
    write_log(STUDY, 1, tmp_path, "step 1\n")
    assert states(STUDY, tmp_path) == {"left": 3}


def test_of_many_runs_in_one_process_the_one_that_failed_is_named(tmp_path: Path) -> None:
    keys = [key for key in GROUPED.keys if key.entry == "dp_mlp"]
    assert len({run_logs(GROUPED)[key] for key in keys}) == 2
    number = GROUPED.keys.index(keys[1])
    write_log(
        GROUPED, number, tmp_path,
        f"{keys[0].folder}: ok\n{keys[1].folder}: error: x must be finite\n"
        f"dpgnn train: error: 1 of 2 runs failed, the first: {keys[1].folder}: error: x\n",
    )  # fmt: skip
    assert states(GROUPED, tmp_path) == {"failed": 1, "left": 3}
    text = progress.status(GROUPED, root=tmp_path)
    assert text.count("failed: ") == 1
    assert "error: x must be finite" in text
    # the first is kept until all of its process are done
    kept = tmp_path / "work" / "finished" / "quick" / keys[0].folder
    kept.mkdir(parents=True)
    (kept / "record.json").write_text(json.dumps(stated(GROUPED, keys[0])))
    assert states(GROUPED, tmp_path) == {"done": 1, "failed": 1, "left": 2}
    assert progress.num_made(GROUPED, root=tmp_path) == 1
    other = stated(GROUPED, keys[0]) | {"code_sha256": "0" * 64}
    (kept / "record.json").write_text(json.dumps(other))
    assert progress.num_made(GROUPED, root=tmp_path) == 0


def test_the_last_screen_names_causes_since_the_start_only(tmp_path: Path) -> None:
    assert list(progress.last_screen(tmp_path, since=0.0)) == []
    log = write_log(STUDY, 0, tmp_path, "dpgnn train: error: x must be finite\n")
    first, last = progress.last_screen(tmp_path, since=log.stat().st_mtime - 1)
    assert first == f"failed: {log.relative_to(tmp_path)}: dpgnn train: error: x must be finite"
    assert "the same command goes on" in last
    assert list(progress.last_screen(tmp_path, since=log.stat().st_mtime + 1)) == []


SNAKEMAKE_SAYS = """
Error in rule train:
    message: {message}
    jobid: 0
    output: results/{run}/record.json, results/{run}/resources.json
    log: logs/{run}.log (check log file(s) for error details)
    shell:
        python -m dpgnn train
        (command exited with non-zero exit code)
"""


def test_a_job_that_left_no_error_is_named_with_what_snakemake_says(tmp_path: Path) -> None:
    stopped = "SLURM-job '1' failed, SLURM status is: 'TIMEOUT'"
    lost = "Job submission failed with exception: [Errno 2] No such file or directory: 'sacct'"
    says = {"late": stopped, "recovered": stopped, "killed": "None", "wrong": "None", "sent": lost}
    folder = tmp_path / ".snakemake" / "log"
    folder.mkdir(parents=True)
    text = [
        SNAKEMAKE_SAYS.format(
            run=run, message=f"{words}{'' if words == lost else '. '}For further error details see"
        )
        if words != "None"
        else SNAKEMAKE_SAYS.format(run=run, message=words)
        for run, words in (*says.items(), ("late", "None"))
    ]
    (folder / "now.snakemake.log").write_text("Select jobs to execute...\n".join(text))
    for name in ("record", "resources"):
        path = tmp_path / "results" / "recovered" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "wrong.log").write_text("dpgnn train: error: x must be finite\n")
    assert progress.causes(tmp_path, since=0.0) == [
        f"logs/late.log: {stopped}",
        "logs/killed.log: ended without an error message; was it killed?",
        "logs/wrong.log: dpgnn train: error: x must be finite",
        f"logs/sent.log: {lost}; are slurm_account and slurm_partition those of the site (docs/cluster.md)?",
    ]


def test_an_error_of_several_lines_is_a_cause_in_one(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "graph" / "friends.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "reading nodes.csv\ndpgnn data: error: data/own/friends must be a valid graph, got 1 problem:\n"
        "  column age of node bo must be a number\n"
    )
    assert progress.causes(tmp_path, since=0.0) == [
        "logs/graph/friends.log: dpgnn data: error: data/own/friends must be a valid graph, got 1 problem: "
        "column age of node bo must be a number"
    ]


def test_runs_of_another_graph_or_split_than_lies_here_are_not_done(tmp_path: Path) -> None:
    key = STUDY.keys[0]
    finish(STUDY, 0, tmp_path, 1.0)
    path = tmp_path / Paths().run(STUDY.name, key.folder) / "record.json"
    inputs = {"graph_sha256": "a" * 64, "split_sha256": "", "prepared_sha256": None}
    graph = tmp_path / Paths().graph(key.dataset) / "graph.json"
    split = tmp_path / Paths().split(key.dataset, key.setting, key.repeat)

    def record(**changed: str) -> None:
        write_json(path, stated(STUDY, key) | {"inputs": inputs | changed})
        rest = [file for file in path.parent.iterdir() if file.name != OF_FOLDER]
        write_checksums(path.parent / OF_FOLDER, rest)

    record()
    assert states(STUDY, tmp_path)["done"] == 1  # data that is not here is not compared
    write_json(graph, {"content_sha256": "a" * 64})
    split.parent.mkdir(parents=True)
    split.write_text("a split")
    write_checksums(split.with_suffix(".sha256"), [split])
    assert states(STUDY, tmp_path)["data"] == 1
    assert "1 of other data than lie here" in progress.status(STUDY, root=tmp_path)
    record(split_sha256=sha256_file(split))
    assert states(STUDY, tmp_path)["done"] == 1
    write_json(graph, {"content_sha256": "b" * 64})
    assert states(STUDY, tmp_path)["data"] == 1


def test_runs_of_an_own_graph_whose_files_were_changed_are_not_done(tmp_path: Path) -> None:
    finish(STUDY, 0, tmp_path, 1.0)
    key = STUDY.keys[0]
    own = tmp_path / "data" / "own" / key.dataset
    own.mkdir(parents=True)
    (own / "nodes.csv").write_text("id,x\na,1\n")
    graph = tmp_path / Paths().graph(key.dataset) / "graph.json"
    sums = {"nodes.csv": sha256_file(own / "nodes.csv")}
    write_json(graph, {"content_sha256": "a", "provenance": {"raw_sha256": sums}})
    assert states(STUDY, tmp_path)["done"] == 1
    (own / "nodes.csv").write_text("id,x\na,2\n")
    assert states(STUDY, tmp_path)["data"] == 1
