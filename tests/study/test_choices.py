"""The chosen point of a tuned entry runs on all repeats, the others on those that choose."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from studies import changed

from dpgnn.core.config import ConfigError
from dpgnn.study.choices import choices_path, read_choices, write_choices
from dpgnn.study.study import load_study, resolve

CELL = ("digits", "random", "8", "dp")
SWEPT = changed(
    entries={
        **changed()["entries"],
        "g-dp": {"extends": "dp", "sweep": {"options.width": [4, 8]}},
    }
) | {"tuned": ["dp"], "tuned_on": 2, "repeats": 5}


def repeats_of(mapping: dict, **choices: object) -> Counter[tuple[str, str, str]]:
    return Counter(
        (key.dataset, key.entry, key.epsilon) for key in resolve(mapping, None, **choices).keys
    )


def test_points_run_on_the_repeats_that_choose_and_the_chosen_one_on_all() -> None:
    before = repeats_of(SWEPT)
    after = repeats_of(SWEPT, choices={CELL: "width=4"})
    assert before["digits", "dp", "8"] == 5
    assert {number for (_, entry, _), number in before.items() if "~" in entry} == {2}
    assert after - before == Counter({("digits", "dp~width=4", "8"): 3})
    assert not before - after


def test_a_bound_on_the_entry_bounds_its_points() -> None:
    few = SWEPT | {"tiers": {"S": {"repeats_at_most": {"dp": 3, "*~*": 1}}}}
    found = repeats_of(few, choices={CELL: "width=4"})
    assert found["digits", "dp~width=4", "8"] == 3
    assert found["digits", "dp~width=8", "8"] == 2
    single = repeats_of(SWEPT | {"tiers": {"S": {"repeats": 1}}}, choices={CELL: "width=4"})
    assert single["digits", "dp~width=4", "8"] == single["digits", "dp~width=8", "8"] == 1


def test_choices_lie_beside_the_study_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(SWEPT, sort_keys=False), encoding="utf-8")
    assert read_choices(file) == {}
    chosen = {CELL: "width=4", (*CELL[:2], "1", "dp"): "width=8"}
    assert write_choices(file, chosen) == choices_path(file) == tmp_path / "mine.choices.csv"
    assert read_choices(file) == chosen
    assert load_study(file).keys == resolve(SWEPT, None, chosen).keys


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dataset,entry\ndigits,dp\n", "must have"),
        ("dataset,setting,epsilon,entry,point\n" + "digits,random,8,dp,width=4\n" * 2, "once"),
        ("dataset,setting,epsilon,entry,point\ndigits,random,8,dp,width=5\n", "no entry is dp~wi"),
    ],
)
def test_a_file_that_chooses_nothing_sensible_is_refused(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(SWEPT, sort_keys=False), encoding="utf-8")
    choices_path(file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_study(file)


def test_the_committed_choices_are_those_of_the_committed_records(repository: Path) -> None:
    from dpgnn.cli.report import describe
    from dpgnn.records.archive import REFERENCE
    from dpgnn.records.cells import build_cells
    from dpgnn.records.frame import load_runs
    from dpgnn.report.tables.tuning import choices

    file = repository / "workflow" / "studies" / "headtohead.yaml"
    study = load_study(file, "M")
    info = describe(study, file)
    points = [key.folder for key in study.keys if "~" in key.entry]
    runs = load_runs(repository / REFERENCE / study.name / "runs", points)
    assert choices(build_cells(runs, info), info) == read_choices(file)


def test_every_private_sound_entry_of_the_head_to_head_is_tuned(repository: Path) -> None:
    """In every cell; `selected` chooses among such entries itself, votes-default is one option of votes."""
    file = repository / "workflow" / "studies" / "headtohead.yaml"
    study = load_study(file, "M")
    sound = {
        name
        for name, entry in study.entries.items()
        if "~" not in name and entry.mode == "sound" and entry.method != "selected"
    } - {"votes-default"}
    cells = {(k.dataset, k.setting, k.epsilon, k.entry) for k in study.keys if k.entry in sound}
    assert {entry for *_, entry in cells} == sound
    assert cells <= set(read_choices(file))
