"""Bad studies and batches larger than what they are drawn from."""

# ruff: noqa: E501  a case of the table is easier to read as one line

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from bad_inputs import Case, check, empty_folder

from dpgnn.__main__ import main

__all__ = ["empty_folder"]

STUDY = {
    "name": "toy",
    "repeats": 1,
    "epsilons": ["1"],
    "datasets": {"chains-s": {"settings": ["half"]}},
    "settings": {"half": {"kind": "random", "train_fraction": 0.5, "val_fraction": 0.2}},
    "entries": {
        "mlp": {"method": "mlp", "mode": "nonprivate"},
        "dp_mlp": {
            "method": "dp_mlp",
            "mode": "sound",
            "privacy_unit": "node",
            "relation": "add-remove",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 8}},
        },
        "dp_gnn": {
            "method": "dp_gnn",
            "mode": "sound",
            "privacy_unit": "node-record",
            "relation": "add-remove",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 8}},
        },
        "dp_gnn-paper": {"extends": "dp_gnn", "mode": "published", "relation": "replace-one"},
        "gnn": {
            "method": "dp_gnn",
            "mode": "nonprivate",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 8}},
        },
        "drw": {
            "method": "drw",
            "mode": "sound",
            "privacy_unit": "node-features",
            "relation": "replace-one",
            "options": {"batch_size": 8},
        },
    },
}


def study(**change: object) -> Callable[[], None]:
    """A study file; `change` maps a path of keys joined by __ to a value."""

    def make() -> None:
        text = json.loads(json.dumps(STUDY))
        for path, value in change.items():
            *parents, last = path.split("__")
            place = text
            for key in parents:
                place = place.setdefault(key, {})
            place[last] = value
        Path("study.yaml").write_text(yaml.safe_dump(text))

    return make


ESTIMATE = ["run", "study.yaml", "--estimate"]


def text_study(text: str, *says: str) -> Case:
    """A study file of this text."""
    return Case(
        lambda: Path("study.yaml").write_text(text) and None, ESTIMATE, says, Path("results")
    )


def named(name: str) -> Callable[[], None]:
    """A good study in a file of this name."""
    return lambda: study()() or (Path("study.yaml").rename(name) and None)


def run(name: str) -> list[str]:
    """The command that runs a study file."""
    return ["run", name, "--", "-n"]


def bad_study(*says: str, **change: object) -> Case:
    return Case(study(**change), ESTIMATE, says, Path("results"))


def batch_of_25(entry: str, option: str) -> Callable[[], None]:
    """A good graph, split and prepared sample, and a batch of 25 out of 24 training nodes."""

    def make() -> None:
        from dpgnn import methods
        from dpgnn.study.study import load_study

        study(**{f"entries__{entry}__options__{option}": 25})()
        folder = Path("results/graphs/chains-s")
        part = Path("results/splits/chains-s.half.0.parquet")
        axes = ["--dataset", "chains-s", "--setting", "half", "--repeat", "0", "--root-seed", "0"]
        recipe = ["--train-fraction", "0.5", "--val-fraction", "0.2"]
        assert main(["data", "prepare", "chains-s", "--out", str(folder)]) == 0
        assert main(["split", "--graph", str(folder), *axes, *recipe, "--out", str(part)]) == 0
        inputs = ["--graph", str(folder), "--split", str(part)]
        resolved = load_study(Path("study.yaml")).entries[entry].for_dataset("chains-s")
        spec = methods.get(resolved.method).sampler(resolved)
        if spec is None:
            return
        sampler = ["--method", resolved.method, "--sampler", spec.name]
        sampler += ["--params-json", json.dumps(spec.params)]
        sample = Path("results/prepared/chains-s.half.0") / f"{spec.label}.parquet"
        assert main(["prepare", *inputs, *axes, *sampler, "--out", str(sample)]) == 0

    return make


def too_large(entry: str, option: str, *says: str, epsilon: str = "1") -> Case:
    command = ["train", "--study", "study.yaml", "--run", f"chains-s.half/{entry}/eps={epsilon}/0"]
    return Case(batch_of_25(entry, option), command, says, status=0, marker=": failed plan: ")


TOO_LARGE = (
    "expected_batch_size must be <= the number of training nodes, 24, got 25; lower it, or use `full`",
)

CASES = {
    "misspelt key": bad_study("repeets is not a known key; did you mean repeats", repeets=3),
    "wrong type": bad_study("repeats must be an integer, got 'three'", repeats="three"),
    "epsilon 0": bad_study("epsilons", "0", epsilons=["0"]),
    "epsilon in words": bad_study("epsilons", "eight", epsilons=["eight"]),
    "delta 1": bad_study("delta", "1", delta=1.0),
    "unknown method": bad_study("entries.mlp", "unknown method 'mlpp'; known:", entries__mlp__method="mlpp"),
    "unknown entry": bad_study("mpl", "mlp", tiers={"S": {"entries": ["mpl"]}}),
    "unknown data set setting": bad_study(
        "unknown setting of datasets.chains-s 'whole'; known: half", **{"datasets__chains-s__settings": ["whole"]}
    ),
    "unknown option": bad_study("entries.mlp.options.widht is not a known key", entries__mlp__options={"widht": 3}),
    "unknown privacy unit": bad_study("entries.dp_mlp", "nodes", entries__dp_mlp__privacy_unit="nodes"),
    "entry that extends itself": bad_study("entries.mlp", "extends", entries__mlp={"extends": "mlp"}),
    "impossible fraction": bad_study("settings.half: train_fraction must be in (0, 1), got 2", settings__half__train_fraction=2),
    "activation that nobody knows": bad_study(
        "entries.dp_mlp.options.activation must be one of relu, tanh, selu, got 'rleu'", entries__dp_mlp__options__activation="rleu"
    ),
    "no privacy for a private entry": bad_study("epsilons must hold finite numbers, got 'inf'", epsilons=["inf"]),
    "the same of one entry": bad_study(
        "entries.dp_mlp.epsilons must hold finite numbers, got 'inf'", entries__dp_mlp__epsilons=["inf"]
    ),
    "unknown paper": bad_study("paper must be one of", "dpgnn, drw, dpar, caribou", "got 'gap'", paper="gap"),
    "unknown data set": bad_study(
        "datasets.corra: data set must be one of", "cora", "got 'corra'",
        datasets={"corra": {"settings": ["half"]}},
    ),
    "repeats that nobody can run": bad_study("repeats must be <= 10000, got 1000000000", repeats=10**9),
    "the same of a tier": bad_study("tiers.S.repeats must be <= 10000", tiers={"S": {"repeats": 10**9}}),
    "the same of a data set": bad_study(
        "tiers.S.repeats_for.chains-s must be <= 10000", tiers={"S": {"repeats_for": {"chains-s": 10**9}}}
    ),
    "a number that YAML reads as text": bad_study(
        "entries.dp_mlp.options.training.clipping_norm must be a number, got '1e-5' (str); write 1.0e-5",
        entries__dp_mlp__options__training__clipping_norm="1e-5",
    ),
    "a number in quotes": bad_study("'0.5' (str); write 0.5 without quotes", entries__dp_mlp__options__training__clipping_norm="0.5"),
    "epsilon in another form": bad_study("epsilons must write each number in its shortest form, got '1e9'; write 1000000000", epsilons=["1e9"]),
    "a key twice": Case(
        lambda: Path("study.yaml").write_text("name: a\nrepeats: 1\ntitle: b\nrepeats: 2\n") and None, ESTIMATE,
        ("study file study.yaml, line 4: key 'repeats' must stand once, and it stands on line 2 too",), Path("results"),
    ),
    "an entry twice": Case(
        lambda: Path("study.yaml").write_text("entries:\n  mlp: {}\n  gcn: {}\n  mlp: {}\n") and None, ESTIMATE,
        ("line 4: key 'mlp' must stand once, and it stands on line 2 too",), Path("results"),
    ),
    "a repeat that is no digit": Case(
        study(), ["train", "--study", "study.yaml", "--run", "chains-s.half/dp_mlp/eps=1/\u00b2"],
        ("--run must have the form DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT",), Path("results"),
    ),
    "a run of no study": Case(
        study(), ["train", "--study", "study.yaml", "--run", "cora.half/dp_mlp/eps=1/0"],
        ("--run cora.half/dp_mlp/eps=1/0: unknown data set 'cora'",), Path("results"),
    ),
    "study that is no YAML": Case(
        lambda: Path("study.yaml").write_text("name: [") and None, ESTIMATE, ("study file study.yaml must be YAML",), Path("results")
    ),
    "aliases in aliases": text_study(
        "a: &a0 lol\n" + "".join(f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 50)),
        "study file study.yaml, line 8: b7 must make 10000000 characters or fewer",
    ),
    "an alias in itself": text_study("a: &a [*a]\n", "line 1: a[0] must not hold itself; drop the alias"),
    "a hundred thousand brackets": text_study("a: " + "[" * 100_000, "line 1: a[0]", "must be nested 100 deep or less"),
    "a thirteenth month": text_study("name: 2024-13-01\n", "study.yaml, line 1: name must be a timestamp (month must be in 1..12)"),
    "an integer of 5,000 digits": text_study("repeats: " + "7" * 5000, "study.yaml, line 1: repeats must be a number of 300 digits or fewer"),
    "an integer beyond every float": text_study("delta: " + "7" * 350, "study.yaml, line 1: delta must be a number of 300 digits or fewer"),
    "a Python object": text_study("a: !!python/object/apply:os.mkdir [executed]\n", "study file study.yaml must be YAML: could not determine a constructor"),
    "a name with braces": bad_study("name must match", "got '{study}'", name="{study}"),
    "an entry with braces": bad_study("name '{mlp}' must match", **{"entries__{mlp}": {"method": "mlp", "mode": "nonprivate"}}),
    "a data set with braces": bad_study("datasets must match", "got '{chains}'", **{"datasets__{chains}": {"settings": ["half"]}}),
    "a setting with braces": bad_study("settings must match", "got '{half}'", **{"settings__{half}": {"kind": "random"}}),
    "a name of digits": bad_study("name must be a text, got 123 (int); put it in quotes", name=123),
    "an entry of digits": bad_study("entries (key) must be a text, got 123 (int); put it in quotes", entries={123: {"method": "mlp"}}),
    "a file's name with braces": Case(named("{a}.yaml"), run("{a}.yaml"), ("study file must have a name without braces", "'{a}.yaml'"), Path("results")),
    "a file's name of digits": Case(named("123"), run("123"), ("study file must have a name without braces that ends in .yaml, got '123'",), Path("results")),
    "a folder as a study": Case(lambda: Path("study.yaml").mkdir(), ESTIMATE, ("study file study.yaml must be a regular file, got 'a folder'",), Path("results")),
    "a folder as a study of one run": Case(
        lambda: Path("study.yaml").mkdir(), ["train", "--study", "study.yaml", "--run", "chains-s.half/mlp/eps=inf/0"],
        ("study file study.yaml must be a regular file, got 'a folder'",), Path("results"),
    ),
    "a named pipe as a study": Case(lambda: os.mkfifo("study.yaml"), ESTIMATE, ("study file study.yaml must be a regular file, got 'a named pipe'",), Path("results")),
    "no study file": Case(lambda: None, ESTIMATE, ("study.yaml",), Path("results")),
    "batch larger than the training set": too_large("dp_mlp", "training__expected_batch_size", *TOO_LARGE),
    "the same of subgraphs": too_large("dp_gnn", "training__expected_batch_size", *TOO_LARGE),
    "the same as published": too_large("dp_gnn-paper", "training__expected_batch_size", *TOO_LARGE),
    "the same without privacy": too_large("gnn", "training__expected_batch_size", *TOO_LARGE, epsilon="inf"),
    "batch larger than the number of walks": too_large(
        "drw", "batch_size", "batch_size must be <= the number of subgraphs", "got 25; lower batch_size"
    ),
    "a batch size in words": bad_study(
        "entries.dp_mlp.options.training.expected_batch_size must be an integer, got 'all'", "must be one of full",
        entries__dp_mlp__options__training__expected_batch_size="all",
    ),
}  # fmt: skip


def test_there_are_many_cases():
    assert len(CASES) >= 20


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input_gives_one_clear_error_and_leaves_nothing(name, empty_folder, capsys):
    check(CASES[name], capsys)
