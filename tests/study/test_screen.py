"""A line for each stage is read out of what Snakemake prints."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import threading
from collections.abc import Iterator

import pytest

from dpgnn.study import screen
from dpgnn.study.screen import Stages, follow

PRINTED = """\
Building DAG of jobs...
Job stats:
job                  count
-----------------  -------
all                      1
graph                    2
train                    1
train_digits_mlp_0a      2
report                   1
total                    7

Select jobs to execute...
[Tue Nov 24 01:10:23 2026]
rule graph:
    output: results/graphs/digits/nodes.parquet
[Tue Nov 24 01:10:24 2026]
Finished jobid: 3 (Rule: graph)
1 of 7 steps (14%) done
Finished jobid: 4 (Rule: graph)
Finished jobid: 5 (Rule: train_digits_mlp_0a)
Error in rule train:
    jobid: 6
Finished jobid: 7 (Rule: train_digits_mlp_0a)
"""
RUNS = {"train_digits_mlp_0a": 9}


def test_jobs_are_counted_by_stage_and_runs_by_what_their_rule_makes() -> None:
    stages = Stages(RUNS)
    changed = [line for line in PRINTED.splitlines() if stages.read(line)]
    assert stages.planned == {"graph": 2, "train": 19, "report": 1}
    assert stages.done == {"graph": 2, "train": 18, "report": 0}
    assert stages.of_runs() == (18, 19)
    assert stages.failed == 1
    assert not any("rule graph" in line or "total" in line for line in changed)
    # a second table, of the jobs that were made, is not counted again
    for line in PRINTED.splitlines()[:10]:
        stages.read(line)
    assert stages.planned["graph"] == 2


def test_a_log_has_a_line_when_a_stage_is_complete() -> None:
    out = io.StringIO()
    _, last = follow(PRINTED.splitlines(keepends=True), RUNS, out)
    told = out.getvalue().splitlines()
    assert [line.split(",")[0] for line in told] == ["graphs: 2 of 2"]
    assert last[-1].startswith("Finished jobid: 7")


def test_a_terminal_has_a_bar_for_each_stage() -> None:
    reader, writer = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        # a terminal hands on a few kilobytes at a time; an OSError is its end
        with contextlib.suppress(OSError):
            while part := os.read(reader, 100_000):
                parts.append(part)

    reads = threading.Thread(target=read)
    reads.start()
    with os.fdopen(writer, "w") as out:
        follow(PRINTED.splitlines(keepends=True), RUNS, out)
    reads.join()
    os.close(reader)
    shown = b"".join(parts).decode()
    assert "2/2" in shown
    assert "18/19" in shown


def test_runs_that_a_process_has_made_are_shown_before_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(screen, "LOOK", 0.01)
    monkeypatch.setattr(screen, "EVERY", -1.0)
    out, looked = io.StringIO(), threading.Event()
    found = iter([3, 7])

    def kept() -> int:
        count = next(found, 7)
        if count == 7 and "runs: 7 of 19" in out.getvalue():
            looked.set()
        return count

    def lines() -> Iterator[str]:
        before, after = PRINTED.split("Finished jobid: 5")
        yield from before.splitlines(keepends=True)
        assert looked.wait(20)
        yield from f"Finished jobid: 5{after}".splitlines(keepends=True)

    stages, _ = follow(lines(), RUNS, out, kept)
    told = [line.split(",")[0] for line in out.getvalue().splitlines()]
    shown = [line for line in told if line.startswith("runs")]
    assert shown[:2] == ["runs: 3 of 19", "runs: 7 of 19"]
    assert shown[-1] == "runs: 18 of 19"
    assert stages.of_runs() == (18, 19)


def test_kept_lines_are_cut() -> None:
    _, last = follow(["short\n", "x" * 30_000 + "\n"], {}, io.StringIO())
    assert last[0] == "short"
    assert len(last[1]) == screen.WIDEST
    assert last[1].endswith("x...")


def test_a_reader_that_is_gone_does_not_end_the_study() -> None:
    read, write = os.pipe()
    os.close(read)
    out = os.fdopen(write, "w")
    stages, last = follow(PRINTED.splitlines(keepends=True), RUNS, out)
    assert stages.done == {"graph": 2, "train": 18, "report": 0}
    assert last[-1] == PRINTED.splitlines()[-1]
    with contextlib.suppress(BrokenPipeError):
        out.close()
