"""Each value of a certificate that is changed is found, also where its checksum is made again."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import copy_of, forged, is_wrong, states
from models_in_memory import small

from dpgnn.accountants.claims import from_dict
from dpgnn.core.storage import json_text
from dpgnn.records.schema import Record, claim_of
from dpgnn.release.bundle import save
from dpgnn.release.load import load
from dpgnn.release.verify import verify


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers of a JSON value stand."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from numbers(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def changed(stated: Any, path: tuple[Any, ...]) -> Any:
    found = copy.deepcopy(stated)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = place[path[-1]] / 2 if place[path[-1]] else 1
    return found


def test_every_number_of_a_certificate_that_is_changed_is_found(
    saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    places = list(numbers(stated))
    assert len(places) >= 40
    for path in places:
        (folder / "certificate.json").write_text(json_text(changed(stated, path)))
        assert states(folder)["files"] == "wrong", path


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each number, text and null of a JSON value, and where it stands."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))
    else:
        yield path, value


# what a forger who makes the checksum again may change unseen, and a signature alone holds: names, where the
# run stood and with what versions, hashes of what is not here, and options that no event counts
UNSEEN = (
    "names", "record.code_sha256", "record.config_sha256", "record.facts.num_nodes",
    "record.key.dataset", "record.key.repeat", "record.key.setting", "record.key.study",
    "record.num_threads", "record.entry.options.training.optimizer", "record.versions",
)  # fmt: skip


def test_every_value_that_is_changed_is_found_where_the_checksum_is_made_again(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    model = small(
        seed=None, classes=("left", "right"), features=tuple("abcdef"), population=(90, 30),
        training={"num_steps": 5, "expected_batch_size": "full"},
    )  # fmt: skip
    folder = model.save(tmp_path / "bundle", key=keys[0])
    stated = json.loads((folder / "certificate.json").read_text())
    unseen, claims = [], 0
    for path, value in leaves(stated):
        other: Any = "f" * 64 if "sha256" in path[-1:] or str(path[-1]).endswith("sha256") else "x"
        if isinstance(value, bool | None):
            other = 0.5 if value is None else not value
        elif isinstance(value, int):
            other = value + 1
        elif isinstance(value, float):
            other = value / 2 or 0.5
        forged(folder, stated, path, other)
        claims += path[:2] == ("record", "claims")
        if path != ("sha256",) and not is_wrong(folder):
            unseen.append(".".join(map(str, path)))
            signature = [c for c in verify(folder, key=keys[1]) if c.what == "signature"]
            assert signature[0].state == "wrong", path
    assert claims >= 15
    assert [one for one in unseen if not one.startswith(UNSEEN)] == []


HEADING = "x\n\n## What it guarantees\n\nepsilon 0.001"
FORGED: dict[str, tuple[str, Callable[[Record], Record]]] = {
    "arithmetic": ("claims", lambda record: with_claim(record, arithmetic="real")),
    "public": ("claims", lambda record: with_claim(record, assumed_public=(HEADING,))),
    "title": ("record", lambda r: replace(r, entry={**r.entry, "title": HEADING})),
    "mode": ("record", lambda r: replace(r, entry={**r.entry, "mode": HEADING})),
    "source": ("record", lambda r: replace(r, source=HEADING)),
    "version": ("record", lambda r: replace(r, versions={**r.versions, "dpgnn": HEADING})),
    "kind": ("record", lambda r: replace(r, randomness={"kind": "foo", "root_seed": None})),
}


def with_claim(record: Record, **changed: Any) -> Record:
    """The record with another first claim, in values and words."""
    first = {name: value for name, value in record.claims[0].items() if name != "words"}
    if "assumed_public" in changed:
        changed["assumed_public"] = (*first["assumed_public"], *changed["assumed_public"])
    made = claim_of(replace(from_dict(first), **changed))
    return replace(record, claims=(made, *record.claims[1:]))


@pytest.mark.parametrize("name", FORGED)
def test_what_a_card_shows_is_compared_with_the_method_and_its_plan(
    name: str, saved: Path, tmp_path: Path
) -> None:
    where, change = FORGED[name]
    model = load(saved)
    folder = save(replace(model, record=change(model.record)), tmp_path / "bundle")
    found = states(folder)
    assert found["words"] == "ok"
    assert found[where] == "wrong"


def test_a_claim_may_say_that_a_gpu_computed_the_sums(saved: Path, tmp_path: Path) -> None:
    model = load(saved)
    assert model.claim.claims[0].arithmetic == "rounded-sums"
    weaker = with_claim(model.record, arithmetic="rounded-sums-assumed")
    folder = save(replace(model, record=weaker), tmp_path / "bundle")
    assert "wrong" not in states(folder).values()


def test_a_check_says_whether_it_is_a_release(saved: Path, tmp_path: Path) -> None:
    for folder, state, words in (
        (saved, "ok", "drawn in secret"),
        (small().save(tmp_path / "seeded"), "not checked", "no release: made with a seed"),
        (small(mode="nonprivate", unit=None, method="mlp", training={"num_epochs": 2},
               ).save(tmp_path / "plain"), "not checked", "no release: no privacy"),
    ):  # fmt: skip
        (found,) = [check for check in verify(folder) if check.what == "release"]
        assert found.state == state
        assert words in found.note


@pytest.mark.parametrize("value", [0, -1, None, [], {}, "", 1e308])
def test_a_value_that_makes_no_sense_is_wrong_and_stops_nothing(
    value: Any, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    for path in (
        ("record", "facts", "num_nodes"), ("record", "facts", "num_train"), ("record", "entry"),
        ("record", "entry", "relation"), ("record", "plan", "mechanisms"), ("record", "claims", 0),
        ("record", "budget"), ("record", "key"), ("names",), ("files",),
    ):  # fmt: skip
        forged(folder, stated, path, value)
        assert is_wrong(folder), path


@pytest.mark.parametrize("value", [True, False, 1, "yes", None])
def test_a_direction_that_the_card_does_not_tell_is_wrong(
    value: Any, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    forged(folder, stated, ("directed_graph",), value)
    assert is_wrong(folder)


MAKES_NO_SENSE: tuple[Any, ...] = (
    0, -1, math.nan, math.inf, 1e308, 10**400, -(10**400), 2**53 + 1, "1", "x", None, [], [1], {},
)  # fmt: skip
# numbers that are refused before anything is made of them, and how
NO_NUMBERS = {
    "NaN": "be finite, got 'NaN'", "-Infinity": "be finite", "1e400": "be finite, got '1e400'",
    "9" * 400: "be whole numbers up to 9007199254740992", "9" * 5000: "be whole numbers up to",
    "-" + "9" * 400: "be whole numbers up to", "9007199254740993": "be whole numbers up to",
}  # fmt: skip


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda number: number[:9] + str(len(number)))
def test_a_number_that_is_none_is_refused_in_one_line(
    number: str, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    text = (folder / "certificate.json").read_text()
    places = list(re.finditer(r"(?<=: )-?[0-9.e-]+(?=,?\n)", text))
    assert len(places) >= 30
    for place in places:
        forged_text = text[: place.start()] + number + text[place.end() :]
        (folder / "certificate.json").write_text(forged_text)
        (found,) = verify(folder)
        assert (found.what, found.state) == ("files", "wrong")
        assert NO_NUMBERS[number] in found.note
        assert len(found.note.splitlines()) == 1
        assert len(found.note) <= 300
    with pytest.raises(ValueError, match=r"numbers of certificate\.json must be"):
        load(folder)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    return _at(value[path[0]], path[1:]) if path else value


@pytest.mark.parametrize("value", MAKES_NO_SENSE, ids=lambda value: str(value)[:9])
def test_each_number_that_makes_no_sense_is_wrong(
    value: Any, saved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    seen = 0
    for path in numbers(stated):
        if json.dumps(value) == json.dumps(_at(stated, path)):
            continue  # the value that it has
        forged(folder, stated, path, value)
        wrong = next((check for check in verify(folder) if check.state == "wrong"), None)
        if wrong is None:  # 0 and large numbers are lawful there, and no event counts them
            assert path[2:5] == ("options", "training", "optimizer")
            wrong = next(c for c in verify(folder, key=keys[1]) if c.state == "wrong")
            assert wrong.what == "signature"
        assert len(wrong.note.splitlines()) == 1, path
        seen += 1
    assert seen >= 35


@pytest.mark.parametrize("value", [10**8, 2**53])
@pytest.mark.parametrize(
    "path",
    [
        ("entry", "options", "num_layers"), ("entry", "options", "training", "num_steps"),
        ("facts", "num_features"), ("facts", "num_classes"),
    ],
)  # fmt: skip
def test_a_number_that_would_keep_the_check_busy_is_refused_before(
    path: tuple[str, ...], value: int, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    forged(folder, stated, ("record", *path), value)
    found = list(verify(folder))
    assert (found[-1].what, found[-1].state) == ("record", "wrong")
    assert f"{path[-1]} must be" in found[-1].note


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("{", '{"format": 1,', 1), "in the form in which it was written"),
        (lambda text: " " + text, "in the form in which it was written"),
        (lambda text: "[" * 100_000, "be JSON"),
        (lambda text: "", "be JSON"),
        (lambda text: "null\n", "hold a certificate"),
    ],
)
def test_another_text_of_the_same_values_is_refused(
    change: Any, says: str, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    path = folder / "certificate.json"
    path.write_text(change(path.read_text()))
    (found,) = verify(folder)
    assert (found.state, says in found.note) == ("wrong", True), found
