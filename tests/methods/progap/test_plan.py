"""ProGAP's noise: the released code's figures, what is proved for them, and the sound plans."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from contract import entry_of

from dpgnn import methods
from dpgnn.accountants import gdp
from dpgnn.accountants.calibration import epsilon
from dpgnn.accountants.events import GaussianRelease, PoissonRoots, compose_all, parts
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Facts, Support
from dpgnn.methods.progap.aggregate import noisy_sum
from dpgnn.methods.progap.options import ProgapConfig
from dpgnn.methods.shared.aggregate_bounds import sampled_edges
from dpgnn.methods.shared.undirected import symmetric_adjacency

METHOD = methods.get("progap")
EDGE = Support(privacy_unit="edge", relation="add-remove")
FACTS = Facts(num_nodes=26406, num_train=19805, num_features=501, num_classes=6, task="multiclass")


def plan_of(mode, unit="edge", relation="add-remove", *, target=4.0, delta=1e-7, **options):
    entry = dataclasses.replace(
        entry_of("progap", mode, Support(privacy_unit=unit, relation=relation)),
        options=strict.read(ProgapConfig, options),
    )
    METHOD.check_entry(entry, "entries.progap")
    return METHOD.plan(entry, FACTS, Budget(epsilon=target, delta=delta))


# of the released code, by autodp: (delta, K) -> multipliers at epsilon 0.25, 1, 4
EDGE_NOISE = {
    (1e-7, 1): (18.560, 4.9768, 1.3702), (1e-7, 2): (26.248, 7.0382, 1.9378),
    (1e-7, 5): (41.501, 11.1284, 3.0639), (1e-6, 1): (16.660, 4.5309, 1.2678),
    (1e-8, 1): (20.310, 5.3908, 1.4662),
}  # fmt: skip


@pytest.mark.parametrize(("delta", "hops"), EDGE_NOISE)
def test_the_published_edge_noise_is_that_of_the_code(delta, hops):
    for target, z in zip((0.25, 1.0, 4.0), EDGE_NOISE[delta, hops]):
        plan = plan_of("published", target=target, delta=delta, num_hops=hops)
        assert plan.mechanisms[0].noise_stddev == pytest.approx(z, rel=3e-4)
        assert plan.claims[0].epsilon <= target


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_what_is_proved_of_the_published_edge_noise(hops):
    for target, proved in ((1.0, 1.355), (4.0, 5.543)):
        stated, true = plan_of("published", target=target, num_hops=hops).claims
        assert stated.caveats == ("directed-sensitivity",)
        assert (true.status, true.epsilon) == ("proved", pytest.approx(proved, rel=1e-3))
    undirected = plan_of("published", target=1.0, num_hops=hops, directed=False)
    assert undirected.claims[0].caveats == ()
    assert undirected.claims[1].epsilon == pytest.approx(0.936, abs=1e-3)


def test_sound_edge_noise_is_exact():
    plan = plan_of("sound", target=1.0, num_hops=2)
    (mechanism,) = plan.mechanisms
    ((event, count),) = parts(mechanism.event)
    assert (count, event.sensitivity) == (2, math.sqrt(2))
    mu = math.sqrt(2 * 2) / mechanism.noise_stddev
    assert gdp.epsilon(mu, 1e-7) == pytest.approx(1.0, rel=1e-9)
    # the specification's example, in units of one direction: 6.6166 sqrt 2
    assert mechanism.noise_stddev == pytest.approx(6.6166 * math.sqrt(2), rel=1e-4)


# K, epochs -> multipliers of the released code at epsilon 2 and 8, n 19,805, batches of 256, delta 1e-5
NODE_NOISE = {(1, 5): (2.300, 0.773), (1, 10): (2.439, 0.833), (2, 5): (3.192, 0.982),
              (2, 10): (3.337, 1.043), (5, 10): (5.173, 1.559)}  # fmt: skip


@pytest.mark.parametrize(("hops", "epochs"), NODE_NOISE)
def test_the_published_node_noise_is_that_of_the_code(hops, epochs):
    for target, z in zip((2.0, 8.0), NODE_NOISE[hops, epochs]):
        plan = plan_of(
            "published", "node-bounded", target=target, delta=1e-5, num_hops=hops,
            node={"max_degree": 100, "bounding": "sampled", "stage": {"num_epochs": epochs}},
        )  # fmt: skip
        aggregate, *stages = plan.mechanisms
        # the code's orders are coarser where epsilon is large
        assert aggregate.noise_stddev / 10 == pytest.approx(z, rel=1e-3 if target < 8 else 8e-3)
        assert len(stages) == hops + 1
        for stage in stages:
            ((event, count),) = parts(stage.event)
            assert isinstance(event, PoissonRoots)
            assert event.noise_stddev == pytest.approx(aggregate.noise_stddev / 10)
            assert count == epochs * (19805 // 256)
        stated, proved = plan.claims
        assert {"own-row-uncounted", "degree-bound-unstable"} < set(stated.caveats)
        assert stated.released == "weights+predictions"
        assert proved.epsilon == math.inf


@pytest.mark.parametrize(
    ("relation", "noises"), [("add-remove", (3.097, 0.988)), ("null-one", (3.757, 1.150))]
)
def test_the_sound_node_noise(relation, noises):
    for target, z in zip((2.0, 8.0), noises):
        plan = plan_of(
            "sound", "node-record", relation, target=target, delta=1e-5, num_hops=2,
            node={"stage": {"num_epochs": 10}},
        )  # fmt: skip
        found = plan.mechanisms[0].details["noise_multiplier"]
        # the specification's multiplier of the stages is over the clipping norm
        stages = plan.mechanisms[1].noise_stddev
        assert found == plan.mechanisms[1].details["noise_multiplier"]
        if relation == "add-remove":
            assert stages == pytest.approx(z, rel=2e-3)
        whole = compose_all(*(m.event for m in plan.mechanisms))
        spent = epsilon(whole, delta=1e-5, relation=relation)
        assert spent == pytest.approx(plan.claims[0].epsilon, rel=1e-9)
        assert spent <= target
        assert plan.claims[0].released == "weights"


def test_the_specifications_null_one_noise_over_the_clipping_norm_meets_the_budget():
    """Both aggregates and stages at the one multiplier 3.757 over sqrt D and over C: epsilon 2."""
    for z, target in ((3.757, 2.0), (1.150, 8.0)):
        one = GaussianRelease(relation="null-one", noise_stddev=z, sensitivity=1.0)
        step = PoissonRoots(
            relation="null-one", noise_stddev=z, clipping_norm=1.0,
            sampling_probability=256 / 19805, d_plus=1, d_minus=1,
        )  # fmt: skip
        whole = compose_all(*[one] * 2, *[step] * (3 * (10 * 19805 // 256)))
        spent = epsilon(whole, delta=1e-5, relation="null-one")
        assert spent == pytest.approx(target, rel=2e-3)


def test_a_hop_moves_by_at_most_sqrt_two_on_every_graph_of_four_nodes():
    cells = list(itertools.combinations(range(4), 2))
    rows = [np.eye(2)[[0, 0, 0, 0]], np.array([(0.6, 0.8), (0.0, 1.0), (1.0, 0.0), (3.0, -4.0)])]
    worst = 0.0

    def sums(pairs, x):
        graph = symmetric_adjacency(np.array(pairs, dtype=np.int64).reshape(-1, 2).T, 4)
        return noisy_sum(graph, x, hop=1, noise_stddev=0.0, draw=lambda step, shape: 0)

    for kept in itertools.product([False, True], repeat=len(cells)):
        pairs = [cell for cell, keep in zip(cells, kept) if keep]
        for edge, x in itertools.product(pairs, rows):
            less = [pair for pair in pairs if pair != edge]
            worst = max(worst, float(np.linalg.norm(sums(pairs, x) - sums(less, x))))
    assert worst == pytest.approx(math.sqrt(2), rel=1e-12)
    path = sums([(0, 1), (1, 2)], rows[1])[:3], sums([(0, 1)], rows[1])[:3]
    assert path[0] == pytest.approx(np.array([(0, 1), (1.6, 0.8), (0, 1)]))
    assert path[1] == pytest.approx(np.array([(0, 1), (0.6, 0.8), (0, 0)]))


def test_the_last_node_of_the_published_sampler_never_sends():
    path = np.array([(0, 1), (1, 0), (1, 2), (2, 1)]).T
    kept = sampled_edges(path, 3, 5, rng=np.random.default_rng(0), drop_last_node=True)
    assert sorted((int(t), int(s)) for s, t in kept.T) == [(0, 1), (1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("words", "options", "unit"),
    [
        ("num_hops must be", {"num_hops": 0}, "edge"),
        ("node.stage.batch_size must be <= the number of training nodes, 19805",
         {"node": {"stage": {"batch_size": 20000}}}, "node-record"),
        ("bounding must be declared in sound mode", {"node": {"bounding": "sampled"}}, "node-record"),
        ("drop_last_node must be False in sound mode", {"node": {"drop_last_node": True}}, "node-bounded"),
        ("options.training must stay at its default", {"training": {"lr": 0.5}}, "node-record"),
        ("shares must be > 0", {"node": {"shares": [0.0, 1.0]}}, "node-record"),
    ],
)  # fmt: skip
def test_bad_options_are_named_at_plan_time(words, options, unit):
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        plan_of("sound", unit, **options)


def test_budgets_that_leave_a_stage_nothing_and_runs_nobody_published_are_refused():
    with pytest.raises(ValueError, match="be node-bounded / add-remove or edge / add-remove"):
        plan_of("published", "node-record", "null-one")
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        Budget(epsilon=0.0, delta=1e-5)
    with pytest.raises(ValueError, match="be finite at node level"):
        plan_of("sound", "node-record", target=math.inf)
