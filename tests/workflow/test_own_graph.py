"""A user's own graph of 20,000 nodes in CSV: the three commands of docs/data.md lead to a report."""

import re
import shlex
import shutil

import numpy as np
import pytest
from helpers import ROOT, copy_repository, run_tool

NUM_NODES, NUM_EDGES, NUM_FEATURES = 20_000, 80_000, 16
CLASSES = np.array(["book", "film", "game", "song"])


def write_tables(folder):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, NUM_NODES)
    means = 0.8 * rng.standard_normal((4, NUM_FEATURES))
    x = (means[label] + rng.standard_normal((NUM_NODES, NUM_FEATURES))).round(4)
    folder.mkdir(parents=True)
    with open(folder / "nodes.csv", "w") as file:
        file.write(",".join(["id", *(f"f{i}" for i in range(NUM_FEATURES)), "label"]) + "\n")
        for node in range(NUM_NODES):
            cells = [f"user{node}", *map(str, x[node]), CLASSES[label[node]]]
            file.write(",".join(cells) + "\n")
    pairs = np.sort(rng.integers(0, NUM_NODES, (2 * NUM_EDGES, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    kept = rng.permutation(pairs)[:NUM_EDGES]
    with open(folder / "edges.csv", "w") as file:
        file.write("source,target\n")
        file.writelines(f"user{a},user{b}\n" for a, b in kept)


def documented_commands():
    text = (ROOT / "docs" / "data.md").read_text()
    block = re.search(r"```sh\n(dpgnn data validate .*?)```", text, re.DOTALL)
    return [shlex.split(line, comments=True) for line in block[1].splitlines()]


def test_three_commands_are_documented():
    commands = documented_commands()
    assert [command[:2] for command in commands] == [
        ["dpgnn", "data"],
        ["dpgnn", "data"],
        ["dpgnn", "run"],
    ]


@pytest.mark.slow
def test_twenty_thousand_nodes_in_csv_become_a_report(tmp_path):
    folder = copy_repository(tmp_path / "repository")
    write_tables(folder / "data" / "own" / "friends")
    for command in documented_commands():
        # the installed command would run the installed code; this is the copy's
        run_tool(folder, "python", "-m", *command)
    report = folder / "results" / "studies" / "friends-first" / "report.html"
    assert "friends" in report.read_text()
    records = list((folder / "results").rglob("record.json"))
    assert len(records) == 3 * (1 + 1 + 2 + 2 + 2)


@pytest.mark.slow
def test_six_commands_lead_from_two_tables_to_a_table_of_answers(tmp_path):
    folder = copy_repository(tmp_path / "repository")
    own = folder / "data" / "own" / "friends"
    own.mkdir(parents=True)
    page = (ROOT / "docs" / "data.md").read_text()
    block = re.search(r"```\n(nodes\.csv +edges\.csv\n.*?)```", page, re.DOTALL)[1]
    (nodes, edges), *rows = (line.split() for line in block.splitlines())
    for name, column in ((nodes, 0), (edges, 1)):
        (own / name).write_text("".join(f"{row[column]}\n" for row in rows))
    (own / "graph.yaml").write_text("classes: [book, film]\nfeatures: [age, posts]\n")
    text = (ROOT / "docs" / "releasing.md").read_text()
    commands = re.search(r"```sh\n(dpgnn data validate .*?)```", text, re.DOTALL)[1].splitlines()
    assert len(commands) == 6
    for command in commands[:4]:
        run_tool(folder, "python", "-m", *shlex.split(command))
    elsewhere = copy_repository(tmp_path / "elsewhere")
    shutil.copytree(folder / "bundle", elsewhere / "bundle")
    asked = elsewhere / "data" / "own" / "friends"
    asked.mkdir(parents=True)
    shutil.copy(own / "nodes.csv", asked)
    for command in commands[4:]:
        run_tool(elsewhere, "python", "-m", *shlex.split(command))
    answers = [line.split(",") for line in (elsewhere / "answers.csv").read_text().splitlines()]
    assert [row[0] for row in answers] == [row[0].split(",")[0] for row in rows]
    assert {row[1] for row in answers[1:]} <= {"book", "film"}
