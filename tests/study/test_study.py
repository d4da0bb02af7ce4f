from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from studies import BASE, changed, known, mapping_of

from dpgnn.accountants.population import PublicPopulation
from dpgnn.core.config import ConfigError
from dpgnn.core.paths import Paths
from dpgnn.study.study import RunKey, resolve
from dpgnn.study.wanted import Wanted
from dpgnn.study.workflow import audit_files


def test_every_run_is_enumerated_once() -> None:
    study = resolve(BASE)
    assert len(study.keys) == len(set(study.keys)) == 2 * (2 + 2 * 2)
    nonprivate = [key for key in study.keys if key.entry == "mlp"]
    assert {key.epsilon for key in nonprivate} == {"inf"}
    key = RunKey(dataset="digits", setting="random", entry="dp", epsilon="8", repeat=1)
    assert key in study.keys
    assert key.folder == "digits.random/dp/eps=8/1"


def test_audits_and_attacks_are_of_all_runs_or_of_those_that_fit_a_pattern() -> None:
    assert (resolve(BASE).audited, resolve(BASE).attacked) == ((), ())
    everything = resolve(changed(audits=True, attacks=True))
    assert everything.attacked == everything.keys
    private = {key for key in everything.keys if key.entry == "dp"}
    assert set(everything.audited) == {key for key in private if key.repeat == 0}
    again = resolve(changed(audits=True, audit_repeats=100))
    assert set(again.audited) == private
    names = {path.name for path in audit_files(again, Paths())}
    assert len(names) == len(private)
    assert {"digits.random.dp.eps=8.json", "digits.random.dp.eps=8.repeat=1.json"} <= names
    some = resolve(changed(audits=["digits.*/dp/eps=8"], attacks=["*/mlp/*/0", "*/eps=8/1"]))
    assert {key.cell for key in some.audited} == {"digits.random/dp/eps=8"}
    assert {(key.entry, key.epsilon, key.repeat) for key in some.attacked} == {
        ("mlp", "inf", 0),
        ("dp", "8", 1),
    }
    # a pattern of runs that another tier has is none that is misspelt
    small = {"S": {"datasets": ["chains-s"]}}
    assert resolve(changed(audits=["digits.*/dp/eps=8"], tiers=small)).audited == ()
    for key, pattern, rule in (
        ("audits", "digits.random/mlp/eps=inf", "a private entry"),
        ("audits", "digits.random/dp/eps=8/0", "eps=EPSILON"),
        ("attacks", "digits.random/dp/eps=8", "eps=EPSILON/REPEAT"),
        ("attacks", "digits/*/eps=8/0", "for example chains-s"),
    ):
        with pytest.raises(ConfigError, match=rf"{key}: no run of this study is '.*{rule}"):
            resolve(changed(**{key: [pattern]}))


def test_a_declared_population_is_read_where_the_number_of_nodes_changes() -> None:
    declared = {"nodes": 2000, "training": 1200}
    study = resolve(changed(datasets__digits__public_population=declared))
    key = next(key for key in study.keys if (key.entry, key.dataset) == ("dp", "digits"))
    found = study.population_for("dp", "digits")
    assert found == PublicPopulation(nodes=2000, training=1200)
    assert Wanted(study).inputs(key).population == found
    assert study.run_params(key)["public_population"] == declared
    # not without noise, not on another data set, not where the number of nodes stays
    plain = next(key for key in study.keys if (key.entry, key.dataset) == ("mlp", "digits"))
    assert "public_population" not in study.run_params(plain)
    assert study.population_for("dp", "chains-s") is None
    same = changed(datasets__digits__public_population=declared, entries__dp__relation="null-one")
    assert resolve(same).population_for("dp", "digits") is None


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"nodes": 2000}, "datasets.digits.public_population.*training"),
        ({"nodes": 10, "training": 11}, "datasets.digits.public_population.*<= nodes = 10, got 11"),
        (
            {"nodes": 0, "training": 0},
            "datasets.digits.public_population.*nodes must be >= 1, got 0",
        ),
        ({"nodes": 1e3, "training": 5}, "datasets.digits.public_population"),
        ({"nodes": 1000, "trainings": 5}, "datasets.digits.public_population.*trainings"),
        (1000, "datasets.digits.public_population"),
    ],
)
def test_a_population_that_is_none_is_refused_by_its_path(declared: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(changed(datasets__digits__public_population=declared))


def test_a_delta_of_one_over_the_declared_nodes_is_refused_when_the_study_is_read() -> None:
    words = {"datasets__digits__public_population": {"nodes": 100, "training": 60}}
    with pytest.raises(
        ConfigError, match=r"entry dp on digits: delta must be < 0\.01, one over the"
    ):
        resolve(changed(**words, datasets__digits__delta=0.01))
    assert resolve(changed(**words, datasets__digits__delta=0.009)).keys
    # the authors' own delta may be repeated
    assert resolve(changed(**words, datasets__digits__delta=0.01, paper="dpar")).keys


def test_delta_comes_from_the_nearest_place() -> None:
    study = resolve(changed(datasets__digits__delta=1e-4, delta=1e-3))
    assert study.delta_for("dp", "digits") == 1e-4
    assert study.delta_for("dp", "chains-s") == 1e-3
    assert resolve(changed(entries__dp__delta=1e-6)).delta_for("dp", "digits") == 1e-6
    own = {"entries__dp__delta": 1e-6, "entries__dp__delta_for": {"digits": 1e-2}}
    there = resolve(changed(**own))
    assert there.delta_for("dp", "digits") == 1e-2
    assert there.delta_for("dp", "chains-s") == 1e-6
    with pytest.raises(ConfigError, match=r"delta_for\.digits must be in \(0, 1\)"):
        resolve(changed(entries__dp__delta_for={"digits": 1.5}))
    with pytest.raises(ConfigError, match=r"data set of entries\.dp 'nowhere'"):
        resolve(changed(entries__dp__delta_for={"nowhere": 0.1}))


def test_epsilons_come_from_the_nearest_place() -> None:
    own = {"entries__dp__epsilons": ["4"], "entries__dp__epsilons_for": {"digits": ["2", "4"]}}
    study = resolve(changed(**own))
    found = {(key.dataset, key.epsilon) for key in study.keys if key.entry == "dp"}
    assert found == {("digits", "2"), ("digits", "4"), ("chains-s", "4")}
    with pytest.raises(ConfigError, match=r"epsilons_for\.digits must hold numbers > 0 as texts"):
        resolve(changed(entries__dp__epsilons_for={"digits": ["0"]}))
    with pytest.raises(ConfigError, match=r"data set of entries\.dp 'nowhere'"):
        resolve(changed(entries__dp__epsilons_for={"nowhere": ["1"]}))


def test_studies_that_share_a_folder_do_not_draw_each_others_splits_anew(repository: Path) -> None:
    """results/splits/DATASET.SETTING.REPEAT stands for one recipe and one seed, whichever study made it."""
    files = [repository / "config.yaml", *(repository / "workflow" / "studies").glob("*.yaml")]
    recipes: dict[tuple[str, str], tuple[Any, ...]] = {}
    for path in files:
        raw, study = mapping_of(path), known(path)
        for dataset, options in raw["datasets"].items():
            for setting in options["settings"]:
                recipe = raw["settings"][setting]
                # one file for all studies, made with seed 0
                seed = None if recipe["kind"] == "public" else raw["root_seed"]
                assert study.split_seed(setting) == (seed or 0)
                first = recipes.setdefault((dataset, setting), (recipe, seed))
                assert first == (recipe, seed), (path.name, dataset, setting)


@pytest.mark.parametrize("asked", [True, ["digits.*/mlp/*"]])
def test_attacks_on_a_release_are_refused(asked: Any) -> None:
    resolve(changed(randomness="release", attacks=False))
    with pytest.raises(ConfigError, match="attacks must be false in a release"):
        resolve(changed(randomness="release", attacks=asked))
