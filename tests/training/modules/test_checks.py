"""What may not be trained is refused by name, with what to do."""

from __future__ import annotations

import re

import own_modules
import pytest
import torch
import torch_geometric.nn as pyg
from helpers import tells
from torch import nn

from dpgnn.models.modules import ModuleConfig, ModuleNetwork
from dpgnn.training.modules.checks import validate

With = own_modules.With


def refusal(module: nn.Module, **named: int) -> str:
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=2)
    with pytest.raises(ValueError, match="must") as caught:
        validate(ModuleNetwork(config, module), **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (nn.BatchNorm1d(6), "With.layer must not mix roots, got 'BatchNorm1d'"),
        (pyg.BatchNorm(6), "With.layer must not mix roots, got 'BatchNorm'"),
        (pyg.GraphNorm(6), "With.layer must not mix roots, got 'GraphNorm'"),
        (pyg.InstanceNorm(6), "With.layer must not mix roots, got 'InstanceNorm'"),
        (pyg.PairNorm(), "With.layer must not mix roots, got 'PairNorm'"),
        (pyg.LayerNorm(6), "got 'LayerNorm in mode graph'"),
        (own_modules.Centre(), "With.layer must compute a tree's rows from that tree alone"),
        (own_modules.TorchNoise(), 'must not draw from a global generator, got "torch\'s"'),
        (own_modules.NumpyNoise(), 'must not draw from a global generator, got "numpy\'s"'),
        (own_modules.RunningMean(), "With.layer.mean must not be written in forward"),
        (own_modules.Counter(), "With.layer.calls"),
        (
            own_modules.Frozen(torch.ones(77, 2)),
            "With.layer.table.weight must hold nothing of the gr",
        ),
        (own_modules.Holder(77), "With.layer.everyone must hold nothing of the graph"),
        (own_modules.ClassHolder(), "With.layer.everyone must hold nothing of the graph"),
        (own_modules.Defaults(), "everyone, which With.layer.forward reads must hold nothing"),
        (own_modules.Arcs(), "With.layer.arcs must hold nothing of the graph, got 'shape (2, 5)'"),
        (own_modules.Reader(), "EVERYONE, which With.layer.forward reads must hold nothing"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_mixes_roots_keeps_state_draws_or_holds_data(layer: nn.Module, says: str) -> None:
    text = refusal(With(layer), num_nodes=77)
    assert says in text
    assert ";" in text, "a remedy"


@pytest.mark.parametrize(
    ("size", "declared", "refused"),
    [(500, True, True), (540, True, True), (560, True, False), (500, False, True), (501, False, False),
     (9, True, False)],
)  # fmt: skip
def test_rows_of_about_a_declared_number_are_refused(
    size: int, declared: bool, refused: bool
) -> None:
    module = With(own_modules.Holder(size))
    asked = {"num_nodes": 500, "is_declared": declared}
    if refused:
        assert "500 is the number of nodes" in refusal(module, **asked)
    else:
        config = ModuleConfig(num_features=7, num_outputs=4, num_hops=1)
        validate(ModuleNetwork(config, module), **asked)


@pytest.mark.parametrize(
    "layer", [nn.LayerNorm(6), pyg.LayerNorm(6, mode="node"), nn.Dropout(0.3), nn.GELU()]
)
def test_layers_that_act_on_each_row_are_taken(layer: nn.Module) -> None:
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=1)
    assert validate(ModuleNetwork(config, With(layer)), num_nodes=77).way == "rows"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.bool])
def test_held_tensors_of_any_kind_are_looked_at(dtype: torch.dtype) -> None:
    holder = own_modules.Holder(5)
    holder.everyone = holder.everyone.to(dtype)
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=1)
    assert validate(ModuleNetwork(config, With(holder)), num_nodes=77).way == "rows"
    mean = own_modules.RunningMean()
    mean.mean = mean.mean.to(dtype)
    assert "With.layer.mean must not be written in forward" in refusal(With(mean))


@pytest.mark.parametrize("conv", own_modules.CONVS)
@pytest.mark.parametrize("num_hops", [1, 2])
def test_every_convolution_of_the_page_is_taken_at_every_depth(conv: str, num_hops: int) -> None:
    """Also where the zero rows of other roots decide whether a root's are kept."""
    torch.manual_seed(0)
    module = (own_modules.OneHop, own_modules.TwoHops)[num_hops - 1](7, 4, conv)
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=num_hops)
    assert validate(ModuleNetwork(config, module)).way == "rows"


def test_a_convolution_that_caches_its_edges_is_refused() -> None:
    assert "conv._cached_edge_index must not be written" in refusal(With(nn.ReLU(), cached=True))


@pytest.mark.parametrize(
    ("module", "num_hops", "says"),
    [
        (
            own_modules.WritesInAnswers(7, 4),
            1,
            "WritesInAnswers.last must not be written in forward",
        ),
        (own_modules.Remembers(), 2, "must compute a tree's rows from that tree alone"),
        (own_modules.Checkpointed(), 1, "be that of the weights in forward, got 'another one'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_writes_remembers_or_computes_otherwise_is_refused(
    module: nn.Module, num_hops: int, says: str
) -> None:
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=num_hops)
    with pytest.raises(ValueError, match=re.escape(says)):
        validate(ModuleNetwork(config, module))


def test_a_module_that_clips_itself_in_a_hook_is_caught_by_its_gradients() -> None:
    torch.manual_seed(0)
    text = refusal(own_modules.ClipsItself(7, 4))
    tells(text, "must depend", "own tree")
    assert "conv" in text


@pytest.mark.parametrize(
    ("what", "limit", "layer"),
    [("edges", 200, "OfBatch.conv"), ("edges", 4000, "OfBatch.conv"), ("places", 40, "OfBatch.conv"),
     ("places", 4000, "OfBatch.conv"), ("size", 300, "OfBatch must"), ("size", 4000, "OfBatch must")],
)  # fmt: skip
def test_a_forward_that_reads_the_size_of_the_batch_is_refused(
    what: str, limit: int, layer: str
) -> None:
    """A few small trees do not show it; as many as the largest chunk holds do."""
    torch.manual_seed(0)
    text = refusal(own_modules.OfBatch(what, limit))
    assert layer in text
    tells(text, "that tree alone", "no len(x)")


class Narrow(nn.Module):
    """Returns too few columns."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(7, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index)


class NoLoneRoot(Narrow):
    """Fails where there is no edge."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        assert edge_index.shape[1], "no edges"
        return self.conv(x, edge_index)


class Pair(Narrow):
    """Returns two things."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index), x  # type: ignore[return-value]


def infinite(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        module.get_parameter("conv.lin_l.bias")[0] = torch.nan
    return module


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Narrow(), "what Narrow.forward returns must have shape"),
        (
            lambda: own_modules.OneHop(9, 4),
            "OneHop.forward at encode (Linear) must accept a tree of 1 node",
        ),
        (lambda: NoLoneRoot(), "NoLoneRoot.forward must accept a tree of 1 node and 0 edges"),
        (lambda: Pair(), "what Pair.forward returns must be a tensor of logits"),
        (lambda: pyg.SimpleConv(), "SimpleConv must have parameters to train"),
        (lambda: Narrow().to("meta"), "conv.lin_l.weight must be on the CPU, got 'meta'"),
        (lambda: infinite(own_modules.RootOnly(7, 4)), "conv.lin_l.bias must be finite"),
        (lambda: pyg.SAGEConv(-1, 4), "must have a shape, got 'a lazy one'"),
        (lambda: pyg.SAGEConv(7, 4).half(), "must be float32, got 'torch.float16'"),
    ],
)
def test_a_bad_module_is_one_line_that_names_it(make, says: str) -> None:
    assert says in refusal_of(make)


def refusal_of(make) -> str:
    config = ModuleConfig(num_features=7, num_outputs=4, num_hops=1)
    with pytest.raises(ValueError, match="must") as caught:
        validate(ModuleNetwork(config, make()))
    assert "\n" not in str(caught.value)
    return str(caught.value)
