"""In a release a root's term is a function of its own tree, also where a module fails on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import own_modules
import pytest
import torch
from torch import nn

from dpgnn.models.modules import ModuleConfig, ModuleNetwork
from dpgnn.models.trees import Trees, build_trees
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import ROWS_OF_A_PRODUCT, RootGradients
from dpgnn.training.modules.checks import validate
from dpgnn.training.modules.masks import Masks

FEATURES, CLASSES = 7, 4
STARS = (0, 3, 30, 0, 12, 5)


def stars(leaves: tuple[int, ...]) -> Trees:
    """Roots with so many neighbours each."""
    sizes = [1 + number for number in leaves]
    return build_trees(
        node_ptr=np.concatenate([[0], np.cumsum(sizes)]), node=np.arange(sum(sizes)),
        edge_ptr=np.concatenate([[0], np.cumsum(leaves)]),
        edge_source=np.concatenate([np.arange(1, size) for size in sizes]),
        edge_target=np.zeros(sum(leaves), dtype=np.int64), y=np.arange(len(leaves)) % CLASSES,
        num_hops=1, conv="sage",
    )  # fmt: skip


def engine_of(
    module: nn.Module, *, release: bool = True, norm: float = 0.5
) -> tuple[RootGradients, torch.Tensor]:
    torch.manual_seed(0)
    network = ModuleNetwork(
        ModuleConfig(num_features=FEATURES, num_outputs=CLASSES, num_hops=1), module
    )
    validate(network)
    trees, rng = stars(STARS), np.random.default_rng(1)
    x = rng.standard_normal((len(trees.node), FEATURES)).astype(np.float32)
    engine = RootGradients(network, x, trees, clipping=global_clipping(norm), masks=Masks(3))
    if release:
        engine.sum_for_release()
    return engine, network.initial(rng=rng)


def terms(module: nn.Module, roots: list[int], **named: Any) -> dict[int, torch.Tensor]:
    """Terms of some roots, in this order in one process."""
    engine, start = engine_of(module, **named)
    return {root: engine(start, np.array([root])).double().clone() for root in roots}


@pytest.mark.parametrize("conv", own_modules.CONVS)
def test_a_root_without_an_edge_adds_what_it_adds_in_a_study(conv: str) -> None:
    torch.manual_seed(0)
    module = own_modules.OneHop(FEATURES, CLASSES, conv)
    alone, study = (terms(module, [0, 1, 3], release=one, norm=100.0) for one in (True, False))
    for root in alone:
        assert float(alone[root].norm()) > 0
        assert torch.allclose(alone[root], study[root], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("release", [True, False])
def test_another_course_without_edges_is_taken(release: bool) -> None:
    torch.manual_seed(0)
    found = terms(own_modules.SkipsLoneRoots(), [0, 1, 3], release=release)
    assert all(float(term.norm()) > 0 for term in found.values())
    assert not torch.equal(found[0], found[3])


def test_a_root_on_which_a_module_fails_adds_nothing_to_a_release_and_is_named_in_a_study() -> None:
    torch.manual_seed(0)
    module = own_modules.DegreeTable()
    found = terms(module, [0, 1, 2, 4])
    assert [float(found[root].norm()) > 0 for root in (0, 1, 2, 4)] == [True, True, False, False]
    engine, start = engine_of(module)
    assert not np.isfinite(engine.part_norms(start, np.array([2]), "global")).any()
    with pytest.raises(ValueError, match="accept a tree of 31 nodes and 30 edges"):
        terms(module, [2], release=False)


def test_what_a_root_draws_from_a_global_generator_moves_no_other_root() -> None:
    torch.manual_seed(0)
    module = own_modules.DropsEdges()
    first, second = terms(module, [2, 4, 5]), terms(module, [4, 5])
    assert torch.equal(first[4], second[4])
    assert torch.equal(first[5], second[5])
    engine, start = engine_of(module)
    before = torch.get_rng_state()
    engine(start, np.array([2]))
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_inside_a_module_is_clipped_at_the_bound() -> None:
    torch.manual_seed(0)
    found = terms(own_modules.Half(), [0, 1, 2, 4], norm=0.05)
    assert all(0 < float(term.norm()) <= 0.05 for term in found.values())


def test_a_tree_whose_rows_and_edges_are_more_than_a_product_holds_adds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ROWS_OF_A_PRODUCT > 61
    monkeypatch.setattr("dpgnn.training.gradients.ROWS_OF_A_PRODUCT", 60)
    torch.manual_seed(0)
    found = terms(own_modules.OneHop(FEATURES, CLASSES), [2, 4])
    assert float(found[2].norm()) == 0.0  # 31 rows and 30 edges
    assert float(found[4].norm()) > 0


def test_a_lack_of_memory_or_a_module_that_fails_everywhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not a release of noise alone."""
    torch.manual_seed(0)
    engine, start = engine_of(own_modules.OneHop(FEATURES, CLASSES))

    def full(position: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(engine.module, "rows_of", full)
    with pytest.raises(torch.OutOfMemoryError):
        engine(start, np.array([1]))

    def fail(*given: object) -> torch.Tensor:
        raise ValueError("no kernel")

    monkeypatch.setattr(engine.module.network.module, "forward", fail)
    with pytest.raises(ValueError, match="no kernel"):
        engine.module.try_out()


def test_an_error_in_a_layer_is_not_hidden_by_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fault of one layer would make a run slow, and no message would say so."""
    torch.manual_seed(0)
    engine, start = engine_of(own_modules.OneHop(FEATURES, CLASSES), release=False)
    assert engine.module.choice.way == "rows"

    def fail(*given: object) -> None:
        raise IndexError("of a layer")

    monkeypatch.setattr("dpgnn.training.modules.engine.row_gradients", fail)
    with pytest.raises(IndexError, match="of a layer"):
        engine(start, np.array([1]))
