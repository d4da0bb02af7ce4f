import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.padded import level_sizes, pad, vmap_sum
from benchmarks.reference import plain_sum, root_gradient
from dpgnn.models.forward import evaluate, per_root_loss
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import build_trees
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import Clipping, global_clipping, uniform_clipping
from dpgnn.training.gradients import Execution, RootGradients

CONVS = ["gcn", "gin", "sage", "gat", "symmetric", "weighted"]
PATHS = ["compiled", "torch"]

configs = st.fixed_dictionaries(
    {
        "conv": st.sampled_from(CONVS),
        "num_hops": st.integers(0, 3),
        "encoder_layers": st.integers(0, 2),
        "decoder_layers": st.integers(0, 2),
        "skip": st.booleans(),
        "bias": st.booleans(),
        "activation": st.sampled_from(["relu", "tanh", "selu"]),
        "task": st.sampled_from(["multiclass", "multilabel"]),
    }
)


def possible(config):
    """The nearest configuration that makes sense."""
    config = dict(config)
    if config["conv"] == "weighted":
        config["num_hops"] = min(config["num_hops"], 1)
    hops = config["num_hops"] if config["conv"] != "weighted" else 0
    if hops == 0:
        config["decoder_layers"] = max(config["decoder_layers"], 1)
    if config["encoder_layers"] == 0 or config["decoder_layers"] == 0:
        config["skip"] = False
    return config


def run(problem, clipping, path="auto", dtype="float64", chunk_rows=13, x=None):
    gradients = RootGradients(
        problem.network, problem.x if x is None else x, problem.trees, clipping=clipping,
        execution=Execution(path=path, dtype=dtype, chunk_rows=chunk_rows),
    )  # fmt: skip
    parameters = problem.parameters.to(gradients.execution.torch_dtype)
    return gradients(parameters, problem.roots).double().clone()


def magnitude(problem):
    """sum |a||g| over the batch is at least the sum of the gradients' norms."""
    gradients = [
        root_gradient(problem.network, problem.parameters, problem.x, problem.trees, int(root))
        for root in problem.roots
    ]
    return sum(float(g.norm()) for g in gradients) + 1e-6


def paths_of(problem):
    attends = problem.network.config.conv == "gat" and problem.network.config.num_hops > 0
    return ["autograd", "torch"] if attends else [*PATHS, "autograd"]


@settings(max_examples=120, deadline=None)
@given(
    config=configs, seed=st.integers(0, 2**32 - 1), per=st.sampled_from(["global", "group", "tensor"]),
    bound=st.sampled_from([1e-3, 0.3, 100.0]),
)  # fmt: skip
def test_every_path_equals_the_plain_loop(make_problem, config, seed, per, bound):
    problem = make_problem(seed, **possible(config))
    clipping = uniform_clipping(problem.network, per, bound)
    expected = plain_sum(
        problem.network, problem.parameters, problem.x, problem.trees, problem.roots, clipping
    )
    size = magnitude(problem)
    for path in paths_of(problem):
        wide = run(problem, clipping, path)
        assert float((wide - expected).norm()) <= 1e-12 * size
        narrow = run(problem, clipping, path, "float32")
        assert float((narrow - expected).norm()) <= 1e-5 * size


@settings(max_examples=30, deadline=None)
@given(config=configs, seed=st.integers(0, 2**32 - 1), per=st.sampled_from(["global", "group"]))
def test_torch_func_on_padded_trees_gives_the_same_sum(make_problem, config, seed, per):
    problem = make_problem(seed, **possible(config))
    network, trees, roots = problem.network, problem.trees, problem.roots
    clipping = uniform_clipping(network, per, 0.5)
    size = int((trees.row_ptr[roots + 1] - trees.row_ptr[roots]).max())
    node, adjacency = pad(trees, roots, size)
    expected = vmap_sum(
        network, problem.parameters, torch.from_numpy(problem.x[node]).double(), adjacency,
        torch.from_numpy(trees.y[roots]), clipping, (size, *level_sizes(trees, roots)[1:]),
    )  # fmt: skip
    for path in paths_of(problem):
        difference = run(problem, clipping, path) - expected
        assert float(difference.norm()) <= 1e-12 * (1.0 + magnitude(problem))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_without_clipping_the_sum_is_the_gradient_of_the_summed_loss(make_problem, path, dtype):
    problem = make_problem(1, num_hops=2, encoder_layers=2, decoder_layers=2, skip=True)
    expected = plain_sum(
        problem.network, problem.parameters, problem.x, problem.trees, problem.roots, None
    )
    rtol, atol = (1e-12, 1e-13) if dtype == "float64" else (1e-4, 1e-5)
    torch.testing.assert_close(run(problem, None, path, dtype), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("path", PATHS)
def test_chunks_change_rounding_only(make_problem, path):
    problem = make_problem(2, num_roots=60, num_hops=2, skip=True)
    clipping = uniform_clipping(problem.network, "group", 0.2)
    whole = run(problem, clipping, path, "float32", chunk_rows=10_000)
    for chunk_rows in (1, 7, 64):
        piece = run(problem, clipping, path, "float32", chunk_rows)
        assert float((piece - whole).norm()) <= 1e-5 * float(whole.norm())


def test_buffers_of_a_larger_chunk_leave_no_trace_in_a_smaller_one(make_problem):
    problem = make_problem(3, num_roots=40, num_hops=1, skip=True)
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=global_clipping(0.1),
        execution=Execution(path="compiled"),
    )  # fmt: skip
    parameters = problem.parameters.float()
    first = gradients(parameters, np.array([3, 5])).clone()
    gradients(parameters, np.arange(40))
    assert torch.equal(gradients(parameters, np.array([3, 5])), first)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), conv=st.sampled_from(["gcn", "weighted", "symmetric"]))
def test_sparse_features_give_the_sum_of_dense_ones(make_problem, seed, conv):
    layers = 0 if conv == "symmetric" else 1
    problem = make_problem(seed, conv=conv, encoder_layers=layers, num_features=40)
    keep = np.random.default_rng(seed).random(problem.x.shape) < 0.2
    problem.x = np.where(keep, problem.x, 0.0).astype(np.float32)
    for per, path in itertools.product(("global", "tensor"), PATHS):
        clipping = uniform_clipping(problem.network, per, 0.1)
        dense = run(problem, clipping, path)
        sparse = run(problem, clipping, path, x=sp.csr_array(problem.x))
        assert float((sparse - dense).norm()) <= 1e-12


def test_large_roots_take_the_formed_route_and_agree(make_problem):
    rng, size = np.random.default_rng(0), 40
    # thin layers: forming the gradient is cheaper than a 40 x 40 Gram matrix
    config = NetworkConfig(num_features=3, num_outputs=2, width=3, activation="tanh")
    problem = make_problem(0)
    problem.network = Network(config)
    problem.x = rng.standard_normal((50, 3)).astype(np.float32)
    problem.parameters = problem.network.initial(rng=rng, dtype=torch.float64)
    problem.trees = build_trees(
        node_ptr=np.array([0, size, size + 2]),
        node=np.concatenate([np.arange(size), [4, 5]]), edge_ptr=np.array([0, size - 1, size]),
        edge_source=np.append(np.arange(1, size), 1), edge_target=np.zeros(size, np.int64),
        y=np.array([0, 1]), num_hops=1, conv="gcn",
    )  # fmt: skip
    problem.roots = np.array([0, 1])
    clipping = uniform_clipping(problem.network, "tensor", 0.05)
    expected = plain_sum(
        problem.network, problem.parameters, problem.x, problem.trees, problem.roots, clipping
    )
    for path in (*PATHS, "autograd"):
        difference = run(problem, clipping, path) - expected
        assert float(difference.norm()) <= 1e-12 * magnitude(problem)


@pytest.mark.parametrize("path", [*PATHS, "autograd"])
@pytest.mark.parametrize("value", [1e30, 3e38, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh", "selu"])
def test_adversarial_features_move_the_sum_by_at_most_the_bound(
    make_problem, path, value, sparse, activation
):
    problem = make_problem(4, num_roots=20, activation=activation, skip=True)
    problem.roots = np.arange(20)
    clean = {}
    for per in ("global", "tensor"):
        clipping = uniform_clipping(problem.network, per, 0.7)
        clean[per] = run(problem, clipping, path, "float32")
    node = int(problem.trees.node[0])
    affected = {
        root
        for root in range(20)
        if node in problem.trees.node[problem.trees.row_ptr[root] : problem.trees.row_ptr[root + 1]]
    }
    problem.x = problem.x.copy()
    problem.x[node, 2] = value
    x = sp.csr_array(problem.x) if sparse else problem.x
    for per in ("global", "tensor"):
        clipping = uniform_clipping(problem.network, per, 0.7)
        moved = run(problem, clipping, path, "float32", x=x)
        assert bool(torch.isfinite(moved).all())
        assert float((moved - clean[per]).norm()) <= 2 * 0.7 * len(affected) * (1 + 1e-5)
        # the other roots' terms are untouched by the broken ones
        problem_roots = problem.roots
        problem.roots = np.array(sorted(set(range(20)) - affected))
        rest = run(problem, clipping, path, "float32", x=x)
        problem.roots = np.array(sorted(affected))
        broken = run(problem, clipping, path, "float32", x=x)
        problem.roots = problem_roots
        torch.testing.assert_close(moved, rest + broken, rtol=0, atol=1e-5)
        assert float(broken.norm()) <= 0.7 * len(affected) * (1 + 1e-5)


@pytest.mark.parametrize("path", PATHS)
def test_sparse_entries_that_stand_twice_count_as_their_sum(make_problem, path):
    problem = make_problem(5, num_hops=0)
    clipping = uniform_clipping(problem.network, "global", 0.01)
    whole = sp.csr_array(problem.x)
    halves = sp.csr_array(
        (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), whole.indptr * 2),
        shape=whole.shape,
    )
    assert not halves.has_canonical_format
    once, twice = (run(problem, clipping, path, "float32", x=x).clone() for x in (whole, halves))
    torch.testing.assert_close(twice, once)


@pytest.mark.parametrize("path", PATHS)
def test_a_root_that_is_not_finite_is_left_out_whole(make_problem, path):
    problem = make_problem(5, num_hops=0)
    problem.roots = np.array([0, 1])
    problem.x = problem.x.copy()
    problem.x[problem.trees.node[1]] = np.nan
    clipping = uniform_clipping(problem.network, "tensor", 0.4)
    both = run(problem, clipping, path, "float32")
    problem.roots = np.array([0])
    # products of one row and of two are rounded differently on some processors
    alone = run(problem, clipping, path, "float32")
    torch.testing.assert_close(both, alone, rtol=0, atol=1e-7)


@pytest.mark.parametrize("path", PATHS)
def test_an_empty_batch_sums_to_zero(make_problem, path):
    problem = make_problem(6)
    problem.roots = np.zeros(0, np.int64)
    assert float(run(problem, global_clipping(1.0), path).abs().sum()) == 0.0


@pytest.mark.parametrize("path", ["auto", "torch"])
def test_dropout_scales_the_inputs_of_every_layer_row_by_row(make_problem, path):
    problem = make_problem(3, num_hops=0)
    roots, flat = problem.roots, problem.parameters.float()

    def total(dropout):
        gradients = RootGradients(
            problem.network, problem.x, problem.trees, clipping=global_clipping(0.3),
            execution=Execution(path=path, chunk_rows=4), dropout=dropout,
        )  # fmt: skip
        return gradients(flat, roots).clone()

    plain = run(problem, global_clipping(0.3), dtype="float32").float()
    torch.testing.assert_close(total(lambda a: a * 1.0), plain, rtol=1e-5, atol=1e-6)
    nothing = problem.network.views(total(lambda a: a * 0.0))
    assert float(nothing["decoder.0.weight"].abs().max()) == 0.0
    assert float(nothing["decoder.0.bias"].abs().max()) > 0.0
    # halving the inputs is the same network with halved weights, and half the gradient by them
    halved = problem.network.views(total(lambda a: a * 0.5))
    views = problem.network.views(flat.clone())
    weights = {n: v * (0.5 if n.endswith("weight") else 1.0) for n, v in views.items()}
    named = [problem.network.flatten(weights).double(), problem.x, problem.trees]
    each = [problem.network.views(root_gradient(problem.network, *named, int(r))) for r in roots]
    expected = torch.zeros_like(halved["decoder.0.weight"])
    for one in each:
        scaled = {n: v * (0.5 if n.endswith("weight") else 1.0) for n, v in one.items()}
        norm = float(problem.network.flatten(scaled).norm())
        expected += (min(1.0, 0.3 / norm) * scaled["decoder.0.weight"]).float()
    torch.testing.assert_close(halved["decoder.0.weight"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_the_mean_loss_is_that_of_the_batch_and_kept_only_when_asked_for(make_problem, path, task):
    problem = make_problem(6, task=task)
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=None,
        execution=Execution(path=path, chunk_rows=8),
    )  # fmt: skip
    with pytest.raises(ValueError, match="track_loss must be on"):
        _ = gradients.mean_loss
    gradients.track_loss = True
    gradients(problem.parameters.float(), problem.roots)
    layout = chunk_layout(problem.trees, problem.roots)
    logits = evaluate(
        problem.network, problem.network.views(problem.parameters.float()), layout,
        torch.from_numpy(problem.x)[layout.node],
    )  # fmt: skip
    y = torch.from_numpy(problem.trees.y)[problem.roots]
    expected = float(per_root_loss(problem.network, logits, y).mean())
    assert gradients.mean_loss == pytest.approx(expected, rel=1e-5)


def test_inputs_that_do_not_fit_are_refused(make_problem):
    problem = make_problem(8)
    network, x, trees = problem.network, problem.x, problem.trees
    with pytest.raises(ValueError, match="x must have 7 columns, got 5"):
        RootGradients(network, x[:, :5], trees, clipping=None)
    with pytest.raises(ValueError, match=r"trees must have depth 1, got 0"):
        RootGradients(network, x, make_problem(8, num_hops=0).trees, clipping=None)
    with pytest.raises(ValueError, match="nodes of the trees must lie in"):
        RootGradients(network, x[:3], trees, clipping=None)
    trees.y[0] = -1
    with pytest.raises(ValueError, match=r"labels of the roots must be classes in 0\.\.3"):
        RootGradients(network, x, trees, clipping=None)


def test_the_compiled_path_refuses_attention_and_gpus(make_problem):
    problem = make_problem(9, conv="gat")
    with pytest.raises(ValueError, match="path must be autograd or torch for attention"):
        run(problem, None, "compiled")
    with pytest.raises(ValueError, match="unknown dtype 'float16'"):
        Execution(dtype="float16")


def test_clipping_must_name_the_networks_parts(make_problem):
    problem = make_problem(10, num_hops=0)
    clipping = Clipping(per="group", norms={"encoder": 1.0, "aggregation": 1.0, "decoder": 1.0})
    with pytest.raises(ValueError, match="name exactly encoder, decoder"):
        run(problem, clipping)


@pytest.fixture
def cuda():
    """A CUDA device, or a skip that says why."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is False")
    return torch.device("cuda")


@pytest.mark.gpu
def test_several_runs_share_one_gpu(make_problem, cuda):
    problem = make_problem(11, num_roots=200)
    given = (problem.network, problem.x, problem.trees)
    clipping, execution = uniform_clipping(problem.network, "group", 0.3), Execution(device="cuda")
    four = [RootGradients(*given, clipping=clipping, execution=execution) for _ in range(4)]
    parameters = problem.parameters.float().to(cuda)
    sums = [gradients(parameters, problem.roots).clone() for gradients in four]
    assert all(float((found - sums[0]).norm()) <= 1e-5 for found in sums)


def test_a_chunk_on_a_gpu_is_a_power_of_two_in_a_fifth_of_the_memory_that_is_free(
    make_problem, monkeypatch
):
    from dpgnn.training import gradients

    network = make_problem(11).network
    # 24 bytes for each value and gradient of a row and their float64 copies
    widths = sum(op.num_in + op.num_out for op in network.linears)
    rows = {}
    for free in (8e10, 8e9, 8e7, 4e7, 8e4):
        monkeypatch.setattr(
            torch.cuda, "mem_get_info", lambda device, free=free: (int(free), 16 << 30)
        )
        rows[free] = gradients._default_chunk_rows("torch", network, torch.device("cuda"))
    # what other runs hold decides nothing until little is left
    assert rows[8e10] == rows[8e9] == gradients.GPU_ROWS
    for free in (8e7, 4e7):
        fitting = 0.2 * free / (24 * widths)
        assert fitting / 2 < rows[free] <= fitting
    assert rows[4e7] == rows[8e7] / 2
    assert rows[8e4] == 1024


@pytest.mark.gpu
def test_cpu_and_gpu_agree(make_problem, cuda):
    for conv in CONVS:
        problem = make_problem(11, num_roots=200, conv=conv)
        clipping = uniform_clipping(problem.network, "group", 0.3)
        cpu = run(problem, clipping, "torch", "float32")
        gradients = RootGradients(
            problem.network, problem.x, problem.trees, clipping=clipping,
            execution=Execution(device="cuda"),
        )  # fmt: skip
        gpu = gradients(problem.parameters.float().cuda(), problem.roots).cpu().double()
        assert float((cpu - gpu).norm()) <= 1e-4 * float(cpu.norm())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("path", ["compiled", "autograd", "torch"])
@pytest.mark.parametrize("conv", ["gcn", "sage"])
def test_rows_in_a_file_give_the_same_bits(make_problem, tmp_path, conv, path, dtype):
    from dpgnn.data.stored import FileArray, StoredRows, normalized

    problem = make_problem(5, conv=conv, num_hops=2)
    np.save(tmp_path / "x.npy", problem.x)
    rows = StoredRows(FileArray(tmp_path / "x.npy"))
    clipping = global_clipping(0.3)
    for kind in ("none", "l2"):
        whole, stored = (normalized(x, kind) for x in (problem.x, rows))
        assert torch.equal(
            run(problem, clipping, path, dtype, x=whole),
            run(problem, clipping, path, dtype, x=stored),
        )
    gradients = RootGradients(problem.network, rows, problem.trees, clipping=clipping)
    gradients.sum_for_release()
    dense = RootGradients(problem.network, problem.x, problem.trees, clipping=clipping)
    dense.sum_for_release()
    parameters = problem.parameters.float()
    assert torch.equal(gradients(parameters, problem.roots), dense(parameters, problem.roots))
