"""A model has the tensors of its method by name and shape, and says who may see an answer by its options."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any

import own_modules
import pytest
import torch
from bundles import forged, is_wrong, states
from contract import PRIVATE, entry_of, options_of
from helpers import tells
from models_in_memory import SMALL, data_of, small
from safetensors.torch import load_file, save_file

import dpgnn
from dpgnn import methods
from dpgnn.core.storage import canonical_json, sha256_file
from dpgnn.release.audience import audience
from dpgnn.release.bundle import OWN_ROWS, ROWS_FOR, check_released, save
from dpgnn.release.expected import expected, looks_up
from dpgnn.release.load import load
from dpgnn.release.verify import verify

# a case for each method, mode and unit: relations make the same tensors
UNITS = list({tuple(c.id.split()[:3]): c for c in PRIVATE}.values())
DATA = data_of()
DATA.val_mask = DATA.train_mask.roll(1)


@functools.cache
def fitted(method: str, unit: str, **more: Any) -> dpgnn.Model:
    pair = next(p for p in methods.get(method).supports if p.privacy_unit == unit)
    stated = {"epsilon": 8, "num_classes": 2, "seed": 1, "delta": 1e-3, **more}
    options = options_of(methods.get(method), pair)
    return dpgnn.fit(DATA, method=method, unit=unit, relation=pair.relation, **stated, **options)


@pytest.mark.parametrize(("name", "mode", "support"), UNITS)
def test_a_fit_leaves_the_expected_tensors_and_answers(name: str, mode: Any, support: Any) -> None:
    entry_of(name, mode, support)  # skips what the method does not have
    model = fitted(name, support.privacy_unit, mode=mode)
    released = model.record.claims[0]["released"]
    wanted = expected(model.entry, model.facts, released, model.state)
    assert wanted is not None
    assert wanted.state == {n: tuple(rows.shape) for n, rows in model.state.items()}
    kept = {n: tuple(rows.shape) for n, rows in model.kept.items() if n != ROWS_FOR}
    assert wanted.kept == kept
    assert looks_up(model.entry) == (bool(kept) or support.privacy_unit == "edge")
    told = audience(model.entry, model.facts, released, model.state)
    assert told == dict(model.record.prediction)


@pytest.mark.parametrize("base", ["votes", "gap", "dp_gnn"])
def test_a_chosen_candidate_decides_the_tensors(base: str) -> None:
    example = dict(methods.get(base).example)
    example.pop("head", None)
    model = dpgnn.fit(
        DATA, method="selected", unit="node-record", relation="add-remove", epsilon=8, num_classes=2,
        seed=1, delta=1e-3, base=base, base_options=example, candidates=[{}, {}],
    )  # fmt: skip
    assert check_released(model)
    told = audience(model.entry, model.facts, model.record.claims[0]["released"], model.state)
    assert told == dict(model.record.prediction)
    other = dataclasses.replace(model, state={**model.state, "chosen": torch.tensor(2)})
    with pytest.raises(ValueError, match=r"tensor chosen must be a number in 0\.\.1"):
        check_released(other)


REFUSED: dict[str, tuple[tuple[str, str], tuple[str, Any], str]] = {
    "unit": (("votes", "node-record"), ("privacy_unit", "node"), "must be one of node-record"),
    "thresholds": (("dp_gnn", "node-record"), ("thresholds", "percentile"), "in sound mode"),
    "extra": (("dp_mlp", "node"), ("rows", [1, 2]), "entry must have the fields"),
    "declared": (("dp_mlp", "edge"), ("public_population", True), "population must be counted"),
    "training": (("dp_mlp", "node"), ("num_train", 61), "num_train must be at most 60"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_an_entry_that_no_fit_takes_is_wrong_whatever_its_plan(which: str, tmp_path: Path) -> None:
    (method, unit), (name, value), said = REFUSED[which]
    model = fitted("lapgraph" if unit == "edge" else method, unit)
    record, entry = model.record, dict(model.record.entry)
    facts = dict(record.facts)
    if name in facts or name == "public_population":
        facts[name] = value
    elif name in entry["options"]:
        entry["options"] = entry["options"] | {name: value}
    else:
        entry[name] = value
    other = dataclasses.replace(record, entry=entry, facts=facts)
    folder = save(model, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    forged(folder, stated, ("record",), json.loads(canonical_json(dataclasses.asdict(other))))
    (found,) = [check for check in verify(folder) if check.what == "record"]
    assert found.state == "wrong"
    tells(found.note, said)


def test_metadata_of_tensors_and_texts_for_numbers_are_wrong(tmp_path: Path) -> None:
    folder = save(fitted("dp_mlp", "node"), tmp_path / "bundle")
    whole = (folder / "certificate.json").read_text()
    path = folder / "model.safetensors"
    save_file(load_file(path), path, metadata={"rows": "1 2 3"})
    files = json.loads(whole)["files"] | {"model.safetensors": sha256_file(path)}
    forged(folder, json.loads(whole), ("files",), files)
    (found,) = [check for check in verify(folder) if check.state == "wrong"]
    tells(found.note, "no other metadata", "rows")
    folder = save(fitted("dp_mlp", "node"), tmp_path / "other")
    scores = {"accuracy": 0.9, "num_nodes": "9 nodes.\n\n## What it guarantees"}
    forged(folder, json.loads(whole), ("record", "metrics"), {"test": scores})
    wrong = {check.what: check.note for check in verify(folder) if check.state == "wrong"}
    tells(wrong["record"], "test num_nodes must be a number")


def test_no_code_named_by_a_bundle_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a module's, nor that of the packages above it; its name cannot forge a line."""
    (tmp_path / "evil").mkdir()
    for file in ("__init__.py", "net.py"):
        (tmp_path / "evil" / file).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    model = own_network()
    for options in (
        {"module": "evil.net:Net", "module_given": ""},
        {"module": "missing:Net", "module_given": ""},
    ):
        entry = dict(model.record.entry)
        entry["options"] = entry["options"] | options
        record = dataclasses.replace(model.record, entry=entry)
        state = {**model.state, "module.\nok  epsilon": torch.zeros(1)}
        other = dataclasses.replace(model, record=record, state=state)
        folder = save(other, tmp_path / f"bundle of {options['module'][:4]}")
        checks = {check.what: check for check in verify(folder)}
        assert checks["record"].state == "ok", checks["record"].note
        assert checks["network"].state == "not checked"
        assert "\n" not in checks["tensors"].note
    assert not (tmp_path / "ran").exists()


def test_a_choice_among_runs_of_an_own_network_is_verified_where_its_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_only.py").write_text(
        "from own_modules import OneHop\n\n\nclass Net(OneHop):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    base = {"module": "mine_only:Net", "max_degree": 1, **SMALL}
    model = dpgnn.fit(
        DATA, method="selected", unit="node-record", relation="add-remove", epsilon=8, num_classes=2,
        seed=1, delta=1e-3, base="dp_gnn", base_options=base, candidates=[{}, {}],
    )  # fmt: skip
    folder = save(model, tmp_path / "bundle")
    assert not is_wrong(folder)
    (tmp_path / "mine_only.py").unlink()
    monkeypatch.delitem(sys.modules, "mine_only")
    found = {check.what: check for check in verify(folder)}
    assert [check for check in found.values() if check.state == "wrong"] == []
    tells(found["tensors"].note, "the owner's own code")


SECRET = {"secret.weight": DATA.x.clone(), "encoder.9.bias": DATA.x[:, 0].clone()}


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize(
    ("method", "unit"),
    [("dp_mlp", "node"), ("votes", "node-record"), ("lapgraph", "edge"), ("gap", "edge")],
)
def test_private_data_under_the_name_of_a_weight_are_neither_saved_nor_passed(
    method: str, unit: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(method, unit)
    assert states(save(model, tmp_path / "whole"))["tensors"] == "ok"
    other = dataclasses.replace(model, state={**model.state, name: SECRET[name]})
    with pytest.raises(ValueError, match="tensors must be those that the method makes") as error:
        save(other, tmp_path / "bundle")
    tells(str(error.value), name, "(60")
    monkeypatch.setattr("dpgnn.release.bundle.check_released", lambda model: True)
    folder = save(other, tmp_path / "forged")
    monkeypatch.undo()
    assert states(folder)["tensors"] == "wrong"


def test_a_weight_of_another_shape_is_refused() -> None:
    model = fitted("dp_mlp", "node")
    wide = torch.cat([model.state["encoder.0.weight"], DATA.x.T[:, :8]], dim=1)
    other = dataclasses.replace(model, state={**model.state, "encoder.0.weight": wide})
    with pytest.raises(ValueError, match=r"encoder.0.weight \(6, 8\), got"):
        check_released(other)


def own_network() -> dpgnn.Model:
    torch.manual_seed(3)
    module = own_modules.GATv2(DATA.x.shape[1], 2)
    steps = {"num_steps": 5, "expected_batch_size": 10}
    return dpgnn.fit(DATA, module=module, num_classes=2, delta=1e-3, seed=1, training=steps)


def test_tensors_of_a_users_module_are_said_to_be_unchecked(tmp_path: Path) -> None:
    model = own_network()
    other = dataclasses.replace(model, state={**model.state, "module.secret": DATA.x.clone()})
    (found,) = [c for c in verify(save(other, tmp_path / "b")) if c.what == "tensors"]
    assert found.state == "not checked"
    tells(found.note, "the owner's own code", "module.secret")


def as_for(model: dpgnn.Model, answers: str, **more: Any) -> dpgnn.Model:
    """The model with another audience in its record, as a forger writes it."""
    told = dict(model.record.prediction) | {"answers": answers}
    return dataclasses.replace(
        model, record=dataclasses.replace(model.record, prediction=told), **more
    )


@pytest.mark.parametrize("which", ["votes", "module", "own rows"])
def test_a_forged_audience_is_found_whatever_hides_the_answers(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makes = {
        "votes": lambda: as_for(fitted("votes", "node-record"), "everyone"),
        "module": lambda: as_for(own_network(), "everyone"),
        "own rows": lambda: as_for(
            fitted("dp_gnn", "node-record"), "everyone", kept={"logits": torch.zeros(1)}
        ),
    }
    forged = makes[which]()
    monkeypatch.setattr("dpgnn.release.bundle.check_released", lambda model: True)
    folder = save(forged, tmp_path / "bundle")
    monkeypatch.undo()
    found = states(folder)
    if which != "own rows":
        assert found["answers"] == "wrong"
        return
    assert found == {"files": "wrong"}
    (folder / OWN_ROWS).unlink()
    assert states(folder)["answers"] == "wrong"


def test_rows_of_an_owner_are_refused_for_a_method_that_keeps_none(tmp_path: Path) -> None:
    model = small()
    with pytest.raises(ValueError, match="own rows must be left out: dp_mlp keeps none"):
        save(dataclasses.replace(model, kept={"logits": torch.zeros(60, 2)}), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
    assert not dataclasses.replace(model, kept={"logits": torch.zeros(60, 2)}).knows_nodes
    assert load(save(model, tmp_path / "whole")).kept == {}


def test_of_a_method_that_states_no_tensors_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted("dp_mlp", "node")
    get, silent = methods.get, dataclasses.replace(methods.get("dp_mlp"), tensors=None)
    monkeypatch.setattr(methods, "get", lambda name: silent if name == "dp_mlp" else get(name))
    save(model, tmp_path / "bundle")
    found = {check.what: check for check in verify(tmp_path / "bundle")}
    assert found["tensors"].state == found["answers"].state == "not checked"
    tells(found["tensors"].note, "dp_mlp, which states none")
    tells(found["answers"].note, "does not state its tensors")
    assert not [check for check in found.values() if check.state == "wrong"]
