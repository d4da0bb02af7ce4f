"""The clipped sum of a user's module is that of one root at a time, by every way."""

from __future__ import annotations

from typing import Any

import numpy as np
import own_modules
import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.reference import clip
from dpgnn.models.forward import per_root_loss
from dpgnn.models.modules import ModuleConfig, ModuleNetwork
from dpgnn.models.trees import Trees, build_trees
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.modules import gradients as engine_module
from dpgnn.training.modules.choice import choose
from dpgnn.training.modules.engine import pieces_of
from dpgnn.training.modules.masks import Masks

FEATURES, CLASSES, NODES = 7, 4, 25


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """PyTorch's layers draw their weights from its own generator: no test depends on those before it."""
    torch.manual_seed(0)


def random_trees(rng: Any, num_roots: int, num_hops: int, y: np.ndarray) -> Trees:
    """Random subgraphs of 1 to 8 nodes."""
    node_ptr, edge_ptr, nodes, sources, targets = [0], [0], [], [], []
    for _ in range(num_roots):
        size = int(rng.integers(1, 9))
        arcs = rng.random((size, size)) < 0.35
        np.fill_diagonal(arcs, False)
        source, target = np.nonzero(arcs)
        nodes.append(rng.choice(NODES, size, replace=False))
        sources.append(source)
        targets.append(target)
        node_ptr.append(node_ptr[-1] + size)
        edge_ptr.append(edge_ptr[-1] + len(source))
    return build_trees(
        node_ptr=np.array(node_ptr), node=np.concatenate(nodes), edge_ptr=np.array(edge_ptr),
        edge_source=np.concatenate(sources), edge_target=np.concatenate(targets), y=y,
        num_hops=num_hops, conv="sage",
    )  # fmt: skip


def problem(module: nn.Module, num_hops: int, seed: int = 0, task: Any = "multiclass") -> Any:
    """A network, features, trees, parameters that are moved off their zeros."""
    rng = np.random.default_rng(seed)
    config = ModuleConfig(num_features=FEATURES, num_outputs=CLASSES, num_hops=num_hops, task=task)
    network = ModuleNetwork(config, module)
    x = rng.standard_normal((NODES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, 12) if task == "multiclass" else rng.integers(0, 2, (12, CLASSES))
    trees = random_trees(rng, 12, num_hops, y)
    parameters = network.initial(rng=rng, dtype=torch.float64)
    parameters += 0.1 * torch.from_numpy(rng.standard_normal(len(parameters)))
    return network, x, trees, parameters


def plain_gradient(network: Any, parameters: Tensor, x: Any, trees: Trees, root: int) -> Tensor:
    """One root's gradient by autograd of its own tree; shares nothing with the engine."""
    first, last = trees.row_ptr[root], trees.row_ptr[root + 1]
    flat = parameters.detach().clone().requires_grad_()
    pairs = [
        (int(trees.entry_row[e]), int(row - first))
        for row in range(first, last)
        for e in range(trees.entry_ptr[row], trees.entry_ptr[row + 1])
    ]
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    rows = torch.from_numpy(x[trees.node[first:last]]).to(flat.dtype)
    network.module.to(flat.dtype)
    out = functional_call(network.module, network.views(flat), (rows, edges))
    logits = out.reshape(-1, CLASSES)[:1]
    loss = per_root_loss(network, logits, torch.from_numpy(trees.y[[root]])).sum()
    (gradient,) = torch.autograd.grad(loss, flat)
    network.module.float()
    return gradient


def check_sum(
    module: nn.Module,
    num_hops: int,
    dtype: Any,
    *,
    way: Any = None,
    per: Any = "global",
    device: str = "cpu",
    **named: Any,
) -> str:
    network, x, trees, parameters = problem(module, num_hops, **named)
    parameters = parameters.to(torch.float64 if dtype == "float64" else torch.float32)
    bounds = uniform_clipping(network, per, 0.5)
    execution = Execution(device=device, dtype=dtype, chunk_rows=20)
    engine = RootGradients(network, x, trees, clipping=bounds, execution=execution)
    if way is not None:
        engine.module.choice = choose(network, way)
    roots = np.array([3, 0, 11, 7, 8, 5])
    there = parameters.to(device)
    found = engine(there, roots).cpu().clone()
    each = [plain_gradient(network, parameters, x, trees, int(root)) for root in roots]
    clipped = [clip(network, gradient, bounds) for gradient in each]
    assert any(float(g.norm()) > bounds.total_norm for g in each), "nothing was clipped"
    expected = torch.stack(clipped).sum(dim=0)
    tolerance = (1e-12 if device == "cpu" else 1e-11) if dtype == "float64" else 1e-5
    assert float((found - expected).norm()) <= tolerance * float(expected.norm())
    norms = engine.part_norms(there, roots, per)
    assert np.allclose((norms**2).sum(0), [float(g.double().norm()) ** 2 for g in each], rtol=1e-5)
    engine.clip(None)
    whole, plain = engine(there, roots).cpu(), torch.stack(each).sum(dim=0)
    assert float((whole - plain).norm()) <= tolerance * float(plain.norm())
    return engine.module.choice.way


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_hops", [1, 2])
@pytest.mark.parametrize("conv", list(own_modules.CONVS))
def test_a_layer_of_pyg_gives_the_sum_of_the_plain_loop(
    conv: str, num_hops: int, dtype: str
) -> None:
    torch.manual_seed(num_hops)
    kind = own_modules.OneHop if num_hops == 1 else own_modules.TwoHops
    assert check_sum(kind(FEATURES, CLASSES, conv), num_hops, dtype) == "rows"


@pytest.mark.parametrize("way", ["vmap", "loop"])
@pytest.mark.parametrize("conv", ["GCNConv", "GATv2Conv", "PNAConv"])
def test_the_other_ways_give_the_same_sum(conv: str, way: str) -> None:
    torch.manual_seed(0)
    module = own_modules.TwoHops(FEATURES, CLASSES, conv)
    assert check_sum(module, 2, "float64", way=way) == way


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("way", ["rows", "vmap", "loop"])
@pytest.mark.parametrize("conv", list(own_modules.CONVS))
def test_on_a_gpu_every_way_gives_the_sum_of_the_plain_loop(conv: str, way: str) -> None:
    module = own_modules.TwoHops(FEATURES, CLASSES, conv)
    assert check_sum(module, 2, "float64", way=way, device="cuda") == way


@pytest.mark.parametrize(
    ("module", "way"),
    [
        (own_modules.Shared(FEATURES, CLASSES), "rows"),
        (pyg.GraphSAGE(FEATURES, 8, 2, CLASSES), "rows"),
        (pyg.GAT(FEATURES, 8, 2, CLASSES, v2=True, jk="cat"), "rows"),
        (own_modules.RootOnly(FEATURES, CLASSES), "vmap"),
        (own_modules.With(nn.PReLU()), "vmap"),
        (own_modules.With(nn.LayerNorm(6)), "rows"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else value,
)
def test_other_modules_take_the_fastest_way_that_is_right(module: nn.Module, way: str) -> None:
    assert check_sum(module, 2, "float64") == way


def test_each_tensor_is_clipped_apart_where_that_is_asked_for() -> None:
    check_sum(own_modules.TwoHops(FEATURES, CLASSES, "GATv2Conv"), 2, "float64", per="tensor")


def test_several_labels_and_trees_without_edges() -> None:
    check_sum(own_modules.OneHop(FEATURES, CLASSES), 1, "float64", task="multilabel")


def test_frozen_tensors_are_no_part_of_the_gradient() -> None:
    module = own_modules.OneHop(FEATURES, CLASSES)
    module.encode.requires_grad_(False)
    network = ModuleNetwork(
        ModuleConfig(num_features=FEATURES, num_outputs=CLASSES, num_hops=1), module
    )
    assert "encode.weight" not in network.shapes
    assert "encode.weight" in network.rest()
    check_sum(module, 1, "float64")


@pytest.mark.parametrize("beside", [[4], [4, 9, 0], [9, 4, 1, 2, 3]])
def test_masks_of_dropout_do_not_move_with_what_stands_beside_a_root(beside: list[int]) -> None:
    torch.manual_seed(0)
    module = own_modules.GATv2(FEATURES, CLASSES, dropout=0.4)
    network, x, trees, parameters = problem(module, 1)
    sums = {}
    for way in ("rows", "loop"):
        for roots in (beside, [root for root in beside if root != 4]):
            masks, execution = Masks(5), Execution(dtype="float64")
            engine = RootGradients(
                network, x, trees, clipping=None, execution=execution, masks=masks
            )
            engine.module.choice = choose(network, way)  # type: ignore[arg-type]
            sums[way, len(roots)] = engine(parameters, np.array(roots, np.int64)).clone()
    alone = sums["loop", len(beside)] - sums["loop", len(beside) - 1]
    masks = Masks(5)
    engine = RootGradients(network, x, trees, clipping=None, masks=masks,
                           execution=Execution(dtype="float64"))  # fmt: skip
    own = engine(parameters, np.array([4])).clone()
    assert float((alone - own).norm()) <= 1e-12 * float(own.norm())
    assert torch.allclose(sums["rows", len(beside)], sums["loop", len(beside)], rtol=1e-12)
    masks.at(6)
    assert not torch.allclose(engine(parameters, np.array([4])), own)
    assert engine.dropout is not None, "audits must know that gradients depend on masks"


def test_a_root_that_is_not_finite_adds_nothing() -> None:
    network, x, trees, parameters = problem(own_modules.OneHop(FEATURES, CLASSES, "GATv2Conv"), 1)
    bounds = uniform_clipping(network, "global", 0.5)
    engine = RootGradients(network, x, trees, clipping=bounds, execution=Execution(dtype="float64"))
    fine = engine(parameters, np.array([1, 2])).clone()
    broken = x.copy()
    bad_node = trees.node[trees.row_ptr[5]]
    others = np.concatenate([trees.node[trees.row_ptr[r] : trees.row_ptr[r + 1]] for r in (1, 2)])
    if bad_node in others:
        broken = np.concatenate([broken, broken[:1]])
        trees.node[trees.row_ptr[5]] = bad_node = len(x)
    broken[bad_node] = np.inf
    engine = RootGradients(
        network, broken, trees, clipping=bounds, execution=Execution(dtype="float64")
    )
    assert torch.allclose(engine(parameters, np.array([1, 5, 2])), fine, rtol=1e-12)


def test_in_a_release_the_sum_is_float64_and_within_the_bound() -> None:
    network, x, trees, parameters = problem(own_modules.TwoHops(FEATURES, CLASSES, "GATv2Conv"), 2)
    bounds = uniform_clipping(network, "global", 0.5)
    engine = RootGradients(network, x, trees, clipping=bounds)
    engine.sum_for_release()
    for root in range(trees.num_roots):
        total = engine(parameters.float(), np.array([root]))
        assert total.dtype == torch.float64
        assert float(total.norm()) <= 0.5


@pytest.mark.parametrize("what", ["edges", "places", "size", "backward"])
@pytest.mark.parametrize("limit", [200, 3000])
def test_one_root_moves_the_sum_of_a_module_that_reads_the_batch_by_its_norm_alone(
    what: str, limit: int
) -> None:
    """Chunks are larger than the limit with the root and not without it."""
    network, x, trees, parameters = problem(own_modules.OfBatch(what, limit), 1)
    bounds = uniform_clipping(network, "global", 0.1)
    engine = RootGradients(network, x, trees, clipping=bounds, execution=Execution(dtype="float64"))
    assert engine.module.choice.way == "vmap"
    rows, each = np.diff(trees.row_ptr), len(trees.node)
    roots = np.tile(np.arange(trees.num_roots), limit // each + 1)
    while rows[roots[1:]].sum() > limit:
        roots = roots[:-1]
    assert rows[roots].sum() > limit - 8
    full = engine(parameters, roots).clone()
    assert float((full - engine(parameters, roots[1:])).norm()) <= 0.1 * (1 + 1e-9)


def test_the_test_of_a_module_is_as_large_as_the_chunks_of_the_run() -> None:
    """Larger chunks are larger in the test, too, and no chunk has more edges than were tested."""
    module = own_modules.OfBatch("size", 20_000)
    network, x, trees, _ = problem(module, 1)
    for chunk_rows, way in ((None, "rows"), (30_000, "vmap")):
        execution = Execution(chunk_rows=chunk_rows)
        engine = RootGradients(network, x, trees, clipping=None, execution=execution)
        assert engine.module.choice.way == way
    roots = np.tile(np.arange(trees.num_roots), 50)
    rows, edges = np.diff(trees.row_ptr), np.diff(trees.entry_ptr[trees.row_ptr])
    for limits in ((60, 10**6), (10**6, 60), (1, 1)):
        pieces = list(pieces_of(trees, roots, *limits))
        assert np.array_equal(np.concatenate(pieces), roots)
        for piece in pieces:
            within = rows[piece].sum() <= limits[0] and edges[piece].sum() <= limits[1]
            assert within or len(piece) == 1
    assert len(list(pieces_of(trees, roots, 10**6, 10**6))) == 1


@pytest.mark.parametrize("what", ["edges", "places", "size", "backward"])
def test_in_a_release_forward_gets_one_tree_at_a_time(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By construction, whatever the tests of the module have found."""
    network, x, trees, parameters = problem(own_modules.OfBatch(what, 50), 1)
    bounds = uniform_clipping(network, "global", 0.5)
    engine = RootGradients(network, x, trees, clipping=bounds)
    engine.module.choice = choose(network)  # as if only a few trees had been tested
    assert engine.module.choice.way == "rows"
    engine.sum_for_release()
    seen, whole = [], engine_module.call
    largest = int(np.diff(trees.row_ptr).max())
    monkeypatch.setattr(
        engine_module, "call", lambda *given: (seen.append(len(given[2])), whole(*given))[1]
    )
    roots = np.tile(np.arange(trees.num_roots), 20)
    full = engine(parameters.float(), roots).clone()
    norms = engine.part_norms(parameters.float(), roots, "global")
    assert norms.shape == (1, len(roots))
    assert len(seen) == 2 * len(roots)
    assert max(seen) <= largest
    assert float((full - engine(parameters.float(), roots[1:])).norm()) <= 0.5 * (1 + 1e-9)


def test_nothing_of_a_chunk_waits_for_a_collection() -> None:
    """A circle of references would let memory grow with the batch."""
    import gc

    from dpgnn.training.modules.watch import Product, Watch

    network, x, trees, parameters = problem(own_modules.GATv2(FEATURES, CLASSES, dropout=0.3), 1)
    engine = RootGradients(network, x, trees, clipping=None, masks=Masks(1))
    gc.collect()
    gc.disable()
    try:
        engine(parameters.float(), np.arange(12))
        assert not [held for held in gc.get_objects() if isinstance(held, (Watch, Product))]
    finally:
        gc.enable()
