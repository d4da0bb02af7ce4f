from __future__ import annotations

import copy
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpgnn.core.config import ConfigError
from dpgnn.data.datasets import check_known
from dpgnn.study.stated import study_schema
from dpgnn.study.study import RunKey, load_study, resolve
from dpgnn.study.workflow import Workflow

BASE: dict[str, Any] = {
    "name": "toy",
    "repeats": 2,
    "epsilons": ["1", "8"],
    "datasets": {"digits": {"settings": ["random"]}, "chains-s": {"settings": ["public"]}},
    "settings": {"random": {}, "public": {"kind": "public"}},
    "entries": {
        "mlp": {"method": "mlp", "mode": "nonprivate"},
        "dp": {
            "method": "dp_mlp",
            "mode": "sound",
            "privacy_unit": "node",
            "relation": "add-remove",
            "options": {"width": 8, "training": {"num_steps": 10}},
        },
    },
    "tiers": {"S": {}, "M": {"repeats": 5, "datasets": ["digits"]}},
}


def changed(**paths: Any) -> dict[str, Any]:
    """BASE with values set by dotted path (dots written as two underscores)."""
    mapping = copy.deepcopy(BASE)
    for path, value in paths.items():
        *folders, last = path.split("__")
        part = mapping
        for folder in folders:
            part = part[folder]
        part[last] = value
    return mapping


def workflow_of(folder: Path, mapping: dict[str, Any], name: str = "study.yaml") -> Workflow:
    """A study seen by the Snakefile, from a file in a folder."""
    (folder / name).write_text(yaml.safe_dump(mapping))
    return Workflow(study_file=str(folder / name))


def test_every_run_is_enumerated_once() -> None:
    study = resolve(BASE)
    assert len(study.keys) == len(set(study.keys)) == 2 * (2 + 2 * 2)
    nonprivate = [key for key in study.keys if key.entry == "mlp"]
    assert {key.epsilon for key in nonprivate} == {"inf"}
    key = RunKey(dataset="digits", setting="random", entry="dp", epsilon="8", repeat=1)
    assert key in study.keys
    assert key.folder == "digits.random/dp/eps=8/1"


def test_a_tier_names_entries_by_pattern() -> None:
    study = resolve(changed(tiers={"S": {"entries": ["d*"]}}))
    assert {key.entry for key in study.keys} == {"dp"}
    swept = changed(entries__dp__sweep={"options.width": [4, 8]})
    names = resolve(swept | {"tiers": {"S": {"entries": ["dp~width=*", "mlp"]}}})
    assert {key.entry for key in names.keys} == {"dp~width=4", "dp~width=8", "mlp"}


def test_a_tier_gives_a_data_set_its_own_repeats_and_entries() -> None:
    tier = {"repeats_for": {"digits": 4}, "entries_for": {"digits": ["m*"]}}
    study = resolve(changed(tiers={"S": tier}))
    there = [key for key in study.keys if key.dataset == "digits"]
    assert [(key.entry, key.repeat) for key in there] == [("mlp", repeat) for repeat in range(4)]
    elsewhere = [key for key in resolve(BASE).keys if key.dataset != "digits"]
    assert [key for key in study.keys if key.dataset != "digits"] == elsewhere


def test_a_tier_runs_a_data_set_at_some_budgets_only() -> None:
    study = resolve(changed(tiers={"S": {"epsilons_for": {"digits": ["8", "12"]}}}))
    there = {key.epsilon for key in study.keys if key.dataset == "digits"}
    assert there == {"8", "inf"}
    elsewhere = [key for key in resolve(BASE).keys if key.dataset != "digits"]
    assert [key for key in study.keys if key.dataset != "digits"] == elsewhere
    with pytest.raises(ConfigError, match=r"epsilons_for\.digits must hold numbers > 0"):
        resolve(changed(tiers={"S": {"epsilons_for": {"digits": ["0"]}}}))
    with pytest.raises(ConfigError, match=r"data set of tiers\.S 'nowhere'"):
        resolve(changed(tiers={"S": {"epsilons_for": {"nowhere": ["1"]}}}))


def test_audits_and_attacks_are_of_all_runs_or_of_those_that_fit_a_pattern() -> None:
    assert (resolve(BASE).audited, resolve(BASE).attacked) == ((), ())
    everything = resolve(changed(audits=True, attacks=True))
    assert everything.attacked == everything.keys
    assert set(everything.audited) == {key for key in everything.keys if key.entry == "dp"}
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


def test_a_tier_repeats_some_entries_less_often_and_none_more() -> None:
    tier = {"repeats": 4, "repeats_for": {"digits": 3}, "repeats_at_most": {"*": 9, "d*": 2}}
    study = resolve(changed(tiers={"S": tier}))
    most = {
        entry: max(
            key.repeat for key in study.keys if (key.entry, key.dataset) == (entry, "digits")
        )
        for entry in ("dp", "mlp")
    }
    assert most == {"dp": 1, "mlp": 2}
    one = resolve(changed(tiers={"S": {**tier, "repeats_at_most": {"*": 9, "digits/d*": 1}}}))
    counts = Counter((key.dataset, key.entry, key.epsilon) for key in one.keys)
    assert {(dataset, entry): number for (dataset, entry, _), number in counts.items()} == {
        ("digits", "dp"): 1,
        ("digits", "mlp"): 3,
        ("chains-s", "dp"): 4,
        ("chains-s", "mlp"): 4,
    }
    with pytest.raises(ConfigError, match=r"data set of tiers\.S\.repeats_at_most 'nowhere'"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"nowhere/dp": 1}}}))
    with pytest.raises(ConfigError, match="repeats_at_most: unknown entry 'nope'"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"nope": 1}}}))
    with pytest.raises(ConfigError, match=r"repeats_at_most\.dp must be >= 1"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"dp": 0}}}))


def test_tuned_entries_have_points() -> None:
    points = changed(entries__dp__sweep={"options.width": [4, 8]})
    points["entries"]["fixed"] = {**changed()["entries"]["dp"]}
    with pytest.raises(ConfigError, match="tuned: 'fixed' must be an entry with points"):
        resolve({**points, "tuned": ["fixed"]})


def test_tuned_entries_are_part_of_what_the_report_shows(tmp_path: Path) -> None:
    points = changed(entries__wide={"extends": "dp", "sweep": {"options.width": [4, 16]}})
    plain = workflow_of(tmp_path, points).presentation_json
    assert workflow_of(tmp_path, {**points, "tuned": ["dp"]}).presentation_json != plain


def test_entries_whose_names_differ_in_a_sign_have_rules_of_their_own(tmp_path: Path) -> None:
    study = changed(runs_per_job=9)
    for name in ("dp-mlp", "dp_mlp", "dp+mlp"):
        study["entries"][name] = study["entries"]["dp"]
    rules = [chunk.rule for chunk in workflow_of(tmp_path, study).chunks]
    assert len(rules) == len(set(rules)) == 2 * 5
    assert all(rule.isidentifier() for rule in rules)


def test_a_study_file_has_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert workflow_of(tmp_path, BASE).study_file == "study.yaml"
    assert workflow_of(Path(), BASE).study_file == "study.yaml"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert workflow_of(tmp_path, BASE).study_file == str(tmp_path / "study.yaml")


def test_a_tier_changes_only_what_it_names() -> None:
    study = resolve(BASE, "M")
    assert {key.dataset for key in study.keys} == {"digits"}
    assert {key.repeat for key in study.keys} == set(range(5))
    assert resolve(BASE, "S").run_params(resolve(BASE).keys[0]) == study.run_params(
        resolve(BASE).keys[0]
    )


def test_extends_and_sweep_make_entries() -> None:
    mapping = changed()
    mapping["entries"]["dp-wide"] = {
        "extends": "dp",
        "sweep": {"options.width": [16, 32], "options.training.lr_": []},
    }
    mapping["entries"]["dp-wide"]["sweep"] = {
        "options.width": [16, 32],
        "options.training.clipping_norm": [0.5, 1.0],
    }
    study = resolve(mapping)
    made = [name for name in study.entries if name.startswith("dp~")]
    assert made == [
        "dp~width=16~clipping_norm=0.5",
        "dp~width=16~clipping_norm=1",
        "dp~width=32~clipping_norm=0.5",
        "dp~width=32~clipping_norm=1",
    ]
    options = study.entries[made[2]].for_dataset("digits").options
    assert (options.width, options.training.clipping_norm, options.training.num_steps) == (
        32,
        0.5,
        10,
    )


def test_options_for_one_data_set_override_the_entry() -> None:
    mapping = changed(entries__dp__options_for={"digits": {"training": {"num_steps": 99}}})
    entry = resolve(mapping).entries["dp"]
    assert entry.for_dataset("digits").options.training.num_steps == 99
    assert entry.for_dataset("chains-s").options.training.num_steps == 10
    assert entry.for_dataset("digits").options.width == 8


def test_an_entry_may_be_kept_to_some_settings() -> None:
    both = {"settings": ["random", "public"]}
    mapping = changed(datasets={"digits": both}, entries__dp__settings=["public"])
    found = {(key.entry, key.setting) for key in resolve(mapping).keys}
    assert found == {("mlp", "random"), ("mlp", "public"), ("dp", "public")}


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


BAD: list[tuple[dict[str, Any], str]] = [
    (changed(repeat=3), r"^repeat is not a known key; did you mean repeats\?"),
    (changed(repeats="3"), r"^repeats must be an integer, got '3'"),
    (changed(repeats=0), r"^repeats must be >= 1"),
    (changed(epsilons=["0"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=["-1"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=["1.0"]), r"^epsilons must write each number in its shortest form"),
    (changed(epsilons=[1]), r"^epsilons\[0\] must be a text, got 1 \(int\); put it in quotes"),
    (changed(epsilons=["one"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=[]), r"^epsilons must hold a budget, got \(\); drop the key"),
    (changed(entries__dp__epsilons=[]), r"^entries\.dp\.epsilons must hold a budget"),
    (changed(tiers={"S": {"epsilons": []}}), r"^tiers\.S\.epsilons must hold a budget"),
    (
        changed(tiers={"S": {"epsilons_for": {"digits": []}}}),
        r"^tiers\.S\.epsilons_for\.digits must hold a budget",
    ),
    (
        changed(tiers={"S": {"epsilons_for": {"digits": ["3"]}}}),
        r"^tiers\.S\.epsilons_for\.digits must hold a budget of entry dp \(1, 8\), got 3; add one,",
    ),
    (changed(epsilons=["1", "1"]), r"^epsilons must hold each value once, got '1'; drop one"),
    (
        changed(datasets__digits={"settings": ["random", "random"]}),
        r"^datasets\.digits\.settings must hold each value once, got 'random'",
    ),
    (changed(delta=1.0), r"^delta must be in \(0, 1\)"),
    (changed(delta=0), r"^delta must be in \(0, 1\)"),
    (changed(datasets__digits={"settings": ["rnd"]}), r"unknown setting of datasets\.digits 'rnd'"),
    (
        changed(datasets__digits={"settings": []}),
        r"^datasets\.digits\.settings must name a setting",
    ),
    (
        changed(entries__dp__method="dpmlp"),
        r"^entries\.dp\.method: unknown method 'dpmlp'; known: ",
    ),
    (changed(entries__dp__mode="private"), r"^entries\.dp\.mode must be one of"),
    (changed(entries__dp__relation=None), r"^entries\.dp\.relation is required"),
    (changed(entries__dp__relation="add"), r"entries\.dp: privacy_unit / relation must be one of"),
    (changed(entries__dp__privacy_unit="edge"), r"entries\.dp: privacy_unit / relation must be"),
    (changed(entries__mlp__mode="sound"), r"entries\.mlp"),
    (
        changed(entries__dp__options__widht=3),
        r"^entries\.dp\.options\.widht is not .* mean width\?",
    ),
    (changed(entries__dp__options__width=0), r"^entries\.dp\.options: width must be >= 1, got 0"),
    (
        changed(entries__dp__options__training={"clipping_norm": 0}),
        r"^entries\.dp\.options\.training: clipping_norm must be > 0",
    ),
    (changed(entries__dp__extends="dp"), r"^entries\.dp\.extends must not form a circle"),
    (changed(entries__dp__extends="dq"), r"^entries\.dp\.extends: unknown entry 'dq'"),
    (
        changed(entries__dp__sweep={"width": [1]}),
        r"^entries\.dp\.sweep\.width must be options\.NAME",
    ),
    (
        changed(entries__dp__sweep={"options.width": []}),
        r"^entries\.dp\.sweep\.options\.width must",
    ),
    (changed(tiers={"X": {}}), r"unknown tier 'X'"),
    (changed(tiers={"S": {"entries": ["nope"]}}), r"^tiers\.S\.entries: unknown entry 'nope'"),
    (changed(entries__dp__settings=["rnd"]), r"unknown setting of entries\.dp 'rnd'"),
    (changed(tiers={"S": {"datasets": ["nope"]}}), r"unknown data set of tiers\.S 'nope'"),
    (changed(tiers={"S": {"repeats_for": {"nope": 2}}}), r"unknown data set of tiers\.S 'nope'"),
    (changed(tiers={"S": {"repeats_for": {"digits": 0}}}), r"repeats_for\.digits must be >= 1"),
    (
        changed(tiers={"S": {"entries_for": {"digits": ["nope"]}}}),
        r"^tiers\.S\.entries_for\.digits: unknown entry 'nope'",
    ),
    (changed(baseline="nope"), r"^baseline: unknown entry 'nope'; known: dp, mlp"),
    (changed(name="a/b"), r"^name must match"),
    (changed(settings__random={"train_fraction": 1.5}), r"^settings\.random: "),
    ([], r"^configuration must be a mapping"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "digit",
            r"^datasets\.digit: data set must be one of .*digits.*, got 'digit'; or a folder",
        ),
        ("synthetic-arixv", r"^datasets\.synthetic-arixv: unknown stand-in .*synthetic-arxiv"),
        (
            "facebook-Nowhere",
            r"^datasets\.facebook-Nowhere: unknown school .*'Nowhere'; .*Rutgers89",
        ),
    ],
)
def test_a_data_set_that_does_not_exist_stops_the_workflow(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        workflow_of(tmp_path, changed(tiers={}, datasets={name: {"settings": ["public"]}}))


def test_every_preset_and_school_exists() -> None:
    for name in (
        "synthetic-arxiv",
        "synthetic-ppi",
        "facebook-Rutgers89",
        "facebook-Yale4",
        "cora",
    ):
        check_known(name)


@pytest.mark.parametrize(("mapping", "message"), BAD)
def test_a_wrong_study_stops_before_any_job(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(mapping)


def test_the_schema_file_is_generated_from_the_dataclasses(repository: Path) -> None:
    path = repository / "workflow" / "schemas" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_schema", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text() == module.text(), "run python workflow/schemas/generate.py"


def test_every_study_file_resolves_and_fits_the_schema(repository: Path) -> None:
    schema = study_schema()
    files = [repository / "config.yaml", *(repository / "workflow" / "studies").glob("*.yaml")]
    for path in files:
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
        tiers = [None, *load_study(path).config.tiers]
        for tier in tiers:
            assert load_study(path, tier).keys


def test_studies_that_share_a_folder_do_not_draw_each_others_splits_anew(repository: Path) -> None:
    """results/splits/DATASET.SETTING.REPEAT stands for one recipe and one seed, whichever study made it."""
    files = [repository / "config.yaml", *(repository / "workflow" / "studies").glob("*.yaml")]
    recipes: dict[tuple[str, str], tuple[Any, ...]] = {}
    for path in files:
        raw, study = yaml.safe_load(path.read_text()), load_study(path)
        for dataset, options in raw["datasets"].items():
            for setting in options["settings"]:
                recipe = raw["settings"][setting]
                # one file for all studies, made with seed 0
                seed = None if recipe["kind"] == "public" else raw["root_seed"]
                assert study.split_seed(setting) == (seed or 0)
                known = recipes.setdefault((dataset, setting), (recipe, seed))
                assert known == (recipe, seed), (path.name, dataset, setting)
