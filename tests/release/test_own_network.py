"""A user's own module through `dpgnn.fit`: the same door, claims, bundles and checks as every model."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import own_modules
import pytest
import torch
from helpers import tells
from models_in_memory import data_of
from torch import nn

import dpgnn
from dpgnn.release.verify import verify

DATA = data_of()
WIDTH = DATA.x.shape[1]
STEPS = {"num_steps": 5, "expected_batch_size": 10}


def fit(module: Any, **named: Any) -> dpgnn.Model:
    stated = {"num_classes": 2, "delta": 1e-3, "seed": 1, "training": STEPS}
    return dpgnn.fit(DATA, module=module, **{**stated, **named})


def made() -> nn.Module:
    torch.manual_seed(3)
    return own_modules.GATv2(WIDTH, 2)


def test_a_module_starts_from_its_own_weights_and_is_not_changed() -> None:
    module = made()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first, second = fit(module), fit(made())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(torch.equal(first.state[n], second.state[n]) for n in first.state)
    assert not torch.equal(first.state["module.out.weight"], before["out.weight"])
    tiny = fit(made(), training=STEPS | {"optimizer": {"name": "sgd", "lr": 1e-12}})
    assert torch.allclose(tiny.state["module.out.weight"], before["out.weight"], atol=1e-6)


def test_the_claim_is_that_of_dp_gnn_and_names_what_is_public() -> None:
    own, built_in = fit(made()), fit(None, width=8)
    for name in ("epsilon", "delta", "privacy_unit", "relation", "answers", "caveats"):
        assert getattr(own.claim, name) == getattr(built_in.claim, name)
    assert own.record.plan["mechanisms"] == built_in.record.plan["mechanisms"]
    extra = set(own.claim.public) - set(built_in.claim.public)
    assert extra == {"code, arguments, initial weights and buffers of the module"}
    assert own.record.details["module"] == {
        "name": "GATv2", "way": "rows", "why": "all parameters enter by rows",
    }  # fmt: skip


def test_what_forward_writes_in_answers_is_not_released() -> None:
    """It is not seen on small trees: the mean over all rows of a private graph would be in the bundle."""
    torch.manual_seed(3)
    model = fit(own_modules.WritesInAnswers(WIDTH, 2, least=50))
    assert torch.equal(model.state["module.last"], torch.zeros(6))
    model.predict(DATA, [0, 1])
    assert torch.equal(model.state["module.last"], torch.zeros(6))


def test_tied_weights_are_released_once_and_answer() -> None:
    torch.manual_seed(3)
    model = fit(own_modules.Tied(WIDTH, 2))
    assert "module.second.weight" not in model.state
    assert model.predict(DATA, [0, 3]).probabilities.shape == (2, 2)


def test_shared_frozen_layers_have_one_name_and_answer() -> None:
    torch.manual_seed(3)
    module = own_modules.Tied(WIDTH, 2)
    for part in (module.first, module.second):
        part.requires_grad_(False)
    module.second = module.first
    model = fit(module)
    assert "module.first.weight" in model.state
    assert "module.second.weight" not in model.state
    assert model.predict(DATA, [0, 3]).probabilities.shape == (2, 2)


def test_modules_that_differ_in_a_number_alone_are_two(tmp_path: Path) -> None:
    torch.manual_seed(3)
    first = own_modules.Scaled(WIDTH, 2, 0.1)
    second = copy.deepcopy(first)
    second.factor = 5.0
    model = fit(first)
    before = model.predict(DATA, [0, 3]).probabilities
    assert fit(second).record.config_sha256 != model.record.config_sha256
    assert np.array_equal(model.predict(DATA, [0, 3]).probabilities, before)


def test_class_name_and_class_make_the_same_model_and_fill_in_the_sizes() -> None:
    by_name = fit("own_modules:GATv2", module_options={"hidden": 4})
    by_class = fit(own_modules.GATv2, module_options={"hidden": 4})
    assert all(torch.equal(by_name.state[n], by_class.state[n]) for n in by_name.state)
    assert by_name.record.config_sha256 == by_class.record.config_sha256
    assert by_name.state["module.out.weight"].shape == (2, 8)
    other = fit("own_modules:GATv2", module_options={"hidden": 5})
    assert other.record.config_sha256 != by_name.record.config_sha256
    assert (
        fit("own_modules:GATv2", seed=2).record.config_sha256
        != fit("own_modules:GATv2").record.config_sha256
    )


def test_modules_of_other_weights_are_other_configurations() -> None:
    torch.manual_seed(4)
    assert fit(made()).record.config_sha256 != fit(own_modules.GATv2(WIDTH, 2)).record.config_sha256


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (made(), {}),
        (made(), {"unit": "node-bounded", "degree_bound": 60, "num_hops": 2, "max_degree": 3}),
        (made(), {"thresholds": "private-quantile"}),
        (made(), {"mode": "nonprivate"}),
        (own_modules.GATv2, {"module_options": {"dropout": 0.3}}),
        (own_modules.RootOnly, {}),
        (own_modules.OneHop, {"num_hops": 0}),
    ],
)
def test_a_bundle_is_verified_and_answers_the_same(
    module: Any, named: dict[str, Any], tmp_path: Path
) -> None:
    model = fit(module, **named)
    model.save(tmp_path / "bundle")
    wrong = [check for check in verify(tmp_path / "bundle") if check.state == "wrong"]
    assert wrong == []
    again = dpgnn.load(tmp_path / "bundle")
    asked = [0, 3, 7]
    assert np.array_equal(
        again.predict(DATA, asked).probabilities, model.predict(DATA, asked).probabilities
    )


def test_a_release_draws_in_secret(tmp_path: Path) -> None:
    first = fit(made(), seed=None, releases=tmp_path)
    second = fit(made(), seed=None, releases=tmp_path)
    assert first.claim.is_release
    assert first.claim.claims[0].arithmetic == "rounded-sums"
    assert any(not torch.equal(first.state[n], second.state[n]) for n in first.state)
    assert first.record.metrics == {}


def test_a_refused_module_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must not mix roots"):
        fit(own_modules.With(nn.BatchNorm1d(6)), seed=None, releases=tmp_path)
    assert not list(tmp_path.rglob("*.json"))


def test_another_process_loads_a_named_class_and_asks_for_a_module_in_memory(
    tmp_path: Path, repository: Path
) -> None:
    fit(own_modules.GATv2).save(tmp_path / "named")
    fit(made()).save(tmp_path / "held")
    code = f"""
import sys
sys.path.insert(0, {str(repository / "tests")!r})
import dpgnn
from models_in_memory import data_of
print(dpgnn.load("named").predict(data_of(), [0]).probabilities.shape)
try:
    dpgnn.load("held").predict(data_of(), [0])
except ValueError as error:
    print(error)
import own_modules
made = own_modules.GATv2({WIDTH}, 2)
print(dpgnn.load("held", module=made).predict(data_of(), [0]).probabilities.tolist())
try:
    dpgnn.load("held", module=own_modules.GATv2({WIDTH}, 2, hidden=3))
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shape, asks, answer, other = done.stdout.splitlines()
    assert shape == "(1, 2)"
    tells(asks, "must be given")
    expected = fit(made()).predict(DATA, [0]).probabilities
    assert np.allclose(np.array(eval(answer)), expected, atol=1e-6)
    tells(other, "must have", "tensors")


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"module": own_modules.GATv2, "width": 3}, "width must be left out with `module`"),
        ({"module": own_modules.GATv2, "mode": "published"}, "must be sound or nonprivate"),
        ({"module": own_modules.GATv2, "clipping": "tensor"}, "clipping must be global"),
        ({"module": "own_modules:Nothing"}, "it has no Nothing"),
        ({"module": "nowhere_at_all:Net"}, "must name a module that Python finds"),
        ({"module": own_modules.GATv2, "module_options": {"depth": 2}}, "must be arguments of the class"),
        ({"module": 3}, "must be a torch.nn.Module"),
        ({"module": dict}, "must name a subclass of torch.nn.Module"),
        ({"module": made(), "module_options": {"hidden": 2}}, "must be left out with a module that is made"),
        ({"module": None, "module_options": {"hidden": 2}}, "must stand beside `module`"),
        ({"module": own_modules.GATv2(WIDTH + 1, 2)}, "GATv2.forward at conv.lin_l (Linear) must accept"),
        ({"module": own_modules.GATv2(WIDTH, 3)}, "must have shape"),
        ({"module": own_modules.GATv2, "method": "gap"}, "only dp_gnn takes a module"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(named: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        fit(**named)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_weights_and_features_of_edges_are_refused_not_dropped(name: str) -> None:
    data = copy.copy(DATA)
    setattr(data, name, torch.ones(DATA.edge_index.shape[1], 1))
    with pytest.raises(ValueError, match=f"data.{name} must be left out") as caught:
        dpgnn.fit(data, module=made(), num_classes=2, seed=1, training=STEPS)
    tells(str(caught.value), "edges carry no weights", f"data.{name} = None")


def test_only_dp_gnn_takes_a_module() -> None:
    for named in ({"module": made()}, {"module": own_modules.GATv2}):
        with pytest.raises(ValueError, match="module must be left out with method gap") as caught:
            dpgnn.fit(DATA, method="gap", num_classes=2, seed=1, **named)
        tells(str(caught.value), "only dp_gnn takes a module")


def test_a_bundle_takes_a_class_in_place_of_a_module_as_fit_does(tmp_path: Path) -> None:
    asked = np.arange(4)
    for name, given in (("instance", made()), ("class", own_modules.GATv2)):
        model = fit(given)
        model.save(tmp_path / name)
        again = dpgnn.load(tmp_path / name, module=own_modules.GATv2)
        assert np.array_equal(
            again.predict(DATA, asked).classes, model.predict(DATA, asked).classes
        )
        with pytest.raises(ValueError, match="must be"):
            dpgnn.load(tmp_path / name, module=own_modules.OneHop)
