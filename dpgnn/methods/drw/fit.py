"""DRW's preparation, training and inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.graph import arcs_of
from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import (
    Fitted,
    PlannedRun,
    Prediction,
    Prepared,
    SamplerSpec,
    own_features_only,
)
from dpgnn.methods.drw.data import first_hop_of_graph, network_behind_first_hop, training_edges
from dpgnn.methods.drw.options import DRWConfig, resolved
from dpgnn.methods.drw.walks import BatchesOfWalks, RunWalks, training_graph
from dpgnn.samplers.walks import Walks, record_chains
from dpgnn.training import evaluation

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism, Plan
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry
    from dpgnn.models.network import Network
    from dpgnn.samplers.subgraphs import Subgraphs
    from dpgnn.samplers.walks import Partition
    from dpgnn.training.dp_sgd import DPSGD

# rows of the history: points of the figure of F1 against epsilon
HISTORY_ROWS = 20
# number of roots whose gradient norms decide a clipping norm read from data
NORM_SAMPLE = 1000
PERCENTILE = 75


def sampler(entry: Entry) -> SamplerSpec | None:
    """Walks of length L, the own-list chain of depth L, or nothing for an MLP."""
    config = resolved(entry)
    if config.sampler == "walks":
        params = {"length": config.walk_length, "num_walks": config.num_restarts}
        return SamplerSpec(name="walks", params=params)
    if config.sampler == "own-list":
        return SamplerSpec(name="record-chains", params={"length": config.num_layers})
    return None


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Draw the walks or the chains on the induced training graph, without noise or cost.

    The number of walks depends on the structure, so a plan that reads it may only claim node-features.
    """
    if spec.name == "walks":
        return prepared_walks(Walks(**spec.params).draw(training_graph(graph, split), rng=rng))
    chains = record_chains(spec.params["length"])
    subgraphs = chains.sample(
        training_edges(graph, split), num_nodes=graph.num_nodes, train_idx=split.train_idx, rng=rng
    )
    return prepared_chains(subgraphs)


def prepared_walks(partition: Partition) -> Prepared:
    """Drawn walks in their stored form."""
    return Prepared(
        kind="partition",
        table=partition.to_table(),
        facts={"num_subgraphs": partition.num_subgraphs},
        diagnostics={"nodes_per_subgraph": _counts(np.diff(partition.node_ptr))},
    )


def prepared_chains(subgraphs: Subgraphs) -> Prepared:
    """Drawn chains in their stored form."""
    return Prepared(
        kind="subgraphs",
        table=subgraphs.to_table(),
        diagnostics={"nodes_per_subgraph": _counts(subgraphs.num_nodes)},
    )


def fit(run: PlannedRun) -> Fitted:
    """Run the planned steps.

    Guarantee: in a private mode the released weights are post-processing of the plan's mechanism.
    """
    config = resolved(run.entry)
    network = network_of(config, run.graph)
    x = normalize_rows(run.graph.x, config.row_norm)
    walks = RunWalks(run.entry, run.graph, run.split, run.prepared, x, run.context, network)
    evaluate = _scorer(config, network, run.graph, run.split, x)
    if run.entry.mode == "nonprivate":
        weights, history = _train_plain(
            config, walks, run.plan, run.context, evaluate, len(run.split.train_idx)
        )
        details: dict[str, Any] = {}
    else:
        weights, history, details = _train_private(config, walks, run.plan, run.context, evaluate)
    if walks.are_drawn:  # the number of roots is nobody's to know where a population is declared
        details["num_subgraphs"] = walks.counts(run.plan.num_steps)
    return Fitted(state=weights, history=tuple(history), details=details)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, on the evaluation graph with full neighbourhoods.

    Guarantee: for DP-MLP (sampler nodes), as `own_features_only`: joint, for unit and relation of the first
    claim; the answer about a node is for that node alone. Otherwise none for the answers, which read other
    nodes' records of the evaluation graph afresh.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    import torch

    config = resolved(entry)
    x = normalize_rows(graph.x, config.row_norm)
    logits = _logits(config, network_of(config, graph), graph, x)(dict(fitted.state))
    if config.sampler == "nodes":
        return own_features_only(entry, logits[torch.from_numpy(node_idx)])
    note = "inference reads features and edges of the evaluation graph, which no claim covers"
    return Prediction(logits=logits[torch.from_numpy(node_idx)], answers="none", note=note)


def _train_private(
    config: DRWConfig,
    walks: RunWalks,
    plan: Plan,
    context: Context,
    evaluate: Callable[[Mapping[str, Tensor]], Mapping[str, float]],
) -> tuple[dict[str, Tensor], list[dict[str, Any]], dict[str, Any]]:
    from dpgnn.methods.shared.private_training import epsilon_after
    from dpgnn.training.dp_sgd import train

    mechanism = context.ledger.enter("train")
    initial = walks.network.initial(rng=context.streams.numpy("weights"))
    spec, details = _spec(config, walks, mechanism, context, initial)
    walks.clipping = spec.clipping
    walks.before_step(1)
    weights, history = train(
        spec, walks.network, walks, initial, config.optimizer,  # type: ignore[arg-type]
        streams=context.streams, store=context.store,
        progress=context.progress(mechanism.num_steps),
        epsilon_spent=epsilon_after(mechanism, plan.claims[0].delta), evaluate=evaluate,
        num_rows=HISTORY_ROWS, before_step=walks.before_step,
    )  # fmt: skip
    return weights, history, details


def _spec(
    config: DRWConfig, walks: RunWalks, mechanism: Mechanism, context: Context, initial: Tensor
) -> tuple[DPSGD, dict[str, Any]]:
    """The executable mechanism; batches follow the walks of the step."""
    from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
    from dpgnn.training.clipping import global_clipping
    from dpgnn.training.dp_sgd import DPSGD
    from dpgnn.training.noise import joint_noise

    ((event, count),) = parts(mechanism.event)
    require(count == mechanism.num_steps, "steps", "be those of the event", mechanism.num_steps)
    planned_norm, details = mechanism.clipping_norm, {}
    assert planned_norm is not None
    norm = planned_norm
    if config.clip_reading != "constant":
        norm = _norm_from_data(config, walks, context, initial)
        details["clipping_norm"] = norm
    assert mechanism.divisor is not None
    ratio = mechanism.noise_stddev / planned_norm
    clipping = global_clipping(norm)
    if isinstance(event, PoissonRoots):
        # own lists have a root for each training node, whose number may be private
        planned = mechanism.divisor if config.sampler == "own-list" else None
        batches = BatchesOfWalks(
            walks, size=None, rate=event.sampling_probability, planned_size=planned
        )
    else:
        assert isinstance(event, FixedSizeRoots)
        batches = BatchesOfWalks(walks, size=event.batch_size, rate=None)
    spec = DPSGD(
        num_steps=mechanism.num_steps, batches=batches, clipping=clipping,  # type: ignore[arg-type]
        noise=joint_noise(clipping, ratio * norm), divisor=mechanism.divisor,
    )  # fmt: skip
    return spec, details


def _norm_from_data(config: DRWConfig, walks: RunWalks, context: Context, initial: Tensor) -> float:
    """C read from the roots' gradient norms before training; reads private data without spending budget."""
    plain = walks.gradients_of(walks.first_inputs(), None)
    rng = context.streams.numpy("clipping-norm")
    chosen = rng.permutation(plain.trees.num_roots)[:NORM_SAMPLE]
    parameters = initial.to(device=plain.device, dtype=plain.execution.torch_dtype)
    norms = [float(plain(parameters, np.array([root])).norm()) for root in chosen]
    if config.clip_reading == "quantile":
        norm = float(np.quantile(norms, config.clipping_norm))
    else:
        norm = config.clipping_norm * float(np.percentile(norms, PERCENTILE))
    # all gradients may be zero; the mechanism needs a positive norm
    return max(norm, 1e-9)


def _train_plain(
    config: DRWConfig,
    walks: RunWalks,
    plan: Plan,
    context: Context,
    evaluate: Callable[[Mapping[str, Tensor]], Mapping[str, float]],
    num_train: int,
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The same network on the same batches without clipping and noise."""
    from dpgnn.training.minibatch import PlainRun, train

    walks.before_step(1)
    size = config.subgraphs_in_batch(num_train)
    require(size <= walks.num_roots, "batch_size", f"be <= {walks.num_roots}", size)
    batches: Any = BatchesOfWalks(walks, size=size, rate=None)
    run = PlainRun(
        num_steps=plan.num_steps, batches=batches, selection=config.selection,
        num_rows=HISTORY_ROWS,
    )  # fmt: skip
    return train(
        run, walks.network, walks,  # type: ignore[arg-type]
        walks.network.initial(rng=context.streams.numpy("weights")), config.optimizer,
        streams=context.streams, store=context.store, progress=context.progress(plan.num_steps),
        evaluate=evaluate, metric="val_micro_f1", before_step=walks.before_step,
    )  # fmt: skip


def network_of(config: DRWConfig, graph: Graph) -> Network:
    """The network behind the first hop."""
    return network_behind_first_hop(
        num_layers=config.num_layers, width=config.width, num_features=graph.num_features,
        num_outputs=graph.num_classes, task=graph.task, gcn=config.sampler != "nodes",
        conv=config.conv,
    )  # fmt: skip


def _logits(
    config: DRWConfig, network: Network, graph: Graph, x: Any
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Named parameters -> logits of all nodes; the first hop is done once."""
    from dpgnn.models.forward import full_graph

    if config.sampler == "nodes":
        return full_graph(network, x, None)
    edges = arcs_of(graph, symmetrize=True)
    return full_graph(network, first_hop_of_graph(edges, x, config.conv), edges)


def _scorer(
    config: DRWConfig, network: Network, graph: Graph, split: Split, x: Any
) -> Callable[[Mapping[str, Tensor]], Mapping[str, float]]:
    """Named parameters -> accuracy and micro-F1 on validation and test nodes, for the history."""
    logits_of = _logits(config, network, graph, x)

    def score(parameters: Mapping[str, Tensor]) -> Mapping[str, float]:
        logits, row = logits_of(parameters).numpy(), {}
        for part, idx in (("val", split.val_idx), ("test", split.test_idx)):
            if len(idx):
                found = evaluation.metrics(
                    logits[idx], graph.y[idx], task=graph.task, num_classes=graph.num_classes
                )
                row[f"{part}_accuracy"] = found["accuracy"]
                row[f"{part}_micro_f1"] = found["micro_f1"]
        return row

    return score


def _counts(sizes: np.ndarray) -> dict[str, int]:
    """Numbers of subgraphs with 1, 2, ... nodes; sensitive."""
    return {str(size): int(count) for size, count in zip(*np.unique(sizes, return_counts=True))}
