"""DPAR's second stage: decoupled training on weighted rows, and power iteration at inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import Fitted, PlannedRun, Prediction, own_features_only
from dpgnn.methods.dpar.options import DPARConfig, is_control_of_sound, resolved
from dpgnn.methods.dpar.rows import members_of, vectors, weights_of_roots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from dpgnn.accountants.plan import Plan
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Context, Entry
    from dpgnn.models.network import Network
    from dpgnn.training.gradients import RootGradients

HISTORY_ROWS = 10


def fit(run: PlannedRun) -> Fitted:
    """Make the rows, then train the network on them.

    Guarantee: in sound mode the released weights are post-processing of the planned mechanisms: the rows
    are their output, and training reads features and labels only, through these rows.
    """
    from dpgnn.models.trees import weighted_rows

    config = resolved(run.entry)
    nodes, rows = _first_stage(run)
    sound = run.entry.mode == "sound" or is_control_of_sound(run.entry)
    weights = weights_of_roots(
        config, rows, len(nodes), sound=sound, key=run.context.streams.numpy("column-cap")
    )
    x = normalize_rows(run.graph.x, config.row_norm)[nodes]
    y = run.graph.y[nodes[: weights.shape[0]]]
    trees = weighted_rows(weights, y)
    network = network_of(config, run.graph, hop=True)
    if run.entry.mode == "nonprivate":
        state, history = _train_plain(config, network, x, trees, run.plan, run.context)
    else:
        state, history = _train_private(config, network, x, trees, run.plan, run.context)
    return Fitted(state=state, history=tuple(history))


def _first_stage(run: PlannedRun) -> tuple[np.ndarray, sp.csr_array]:
    """Nodes of the subsample and their rows, made once per run.

    They are checkpointed before training starts: a resumed run must not draw secret noise for the same
    vectors again, which would be a second release that no plan counts.
    """
    held = run.context.store.load("rows")
    if held is not None:
        arrays, values = held
        for mechanism in run.plan.mechanisms:
            if mechanism.name != "train":
                run.context.ledger.enter(mechanism.name)
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        return arrays["nodes"], sp.csr_array(parts, shape=tuple(values["shape"]))
    # lost rows are released anew, so training on the lost ones must not be resumed
    run.context.store.clear()
    members = members_of(run)
    rows = sp.csr_array(vectors(resolved(run.entry), members.exact, run.context))
    arrays = {"nodes": members.nodes, "data": rows.data, "indices": rows.indices,
              "indptr": rows.indptr}  # fmt: skip
    run.context.store.save("rows", arrays, {"shape": list(rows.shape)})
    return members.nodes, rows


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits H of the perceptron, propagated P times over the evaluation graph.

    Q_0 = H, Q_p = (1 - a) D^-1 (A + I) Q_(p-1) + a H; no dropout.

    Guarantee: without propagation, as `own_features_only`: joint, for unit and relation of the first claim;
    the answer about a node is for that node alone. With it none for the answers, which read other nodes'
    records of the evaluation graph afresh.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    import torch

    from dpgnn.models.forward import full_graph_logits

    config = resolved(entry)
    network = network_of(config, graph, hop=False)
    x = normalize_rows(graph.x, config.row_norm)
    if config.power_iterations == 0:
        logits = full_graph_logits(network, fitted.state, x[node_idx], None)
        return own_features_only(entry, logits)
    own = full_graph_logits(network, fitted.state, x, None).numpy()
    operator = propagation(graph)
    state = own
    for _ in range(config.power_iterations):
        state = (1 - config.restart) * (operator @ state) + config.restart * own
    note = "inference reads features and edges of the evaluation graph, which no claim covers"
    logits = torch.from_numpy(np.ascontiguousarray(state[node_idx], dtype=np.float32))
    return Prediction(logits=logits, answers="none", note=note)


def propagation(graph: Graph) -> sp.csr_array:
    """D^-1 (A + I) of the graph of the setting: CSR float32, rows sum to 1."""
    from dpgnn.models.trees import graph_lists

    edges = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    ptr, row, weight = graph_lists(edges, graph.num_nodes, "gcn")
    return sp.csr_array((weight, row, ptr), shape=(graph.num_nodes, graph.num_nodes))


def network_of(config: DPARConfig, graph: Graph, *, hop: bool) -> Network:
    """d -> width -> classes with ReLU; with `hop`, a root's weighted sum of logits."""
    from dpgnn.models.network import Network, NetworkConfig

    return Network(
        NetworkConfig(
            num_features=graph.num_features,
            num_outputs=graph.num_classes,
            width=config.width,
            encoder_layers=1,
            num_hops=1 if hop else 0,
            decoder_layers=1,
            conv="weighted",
            bias=config.bias,
            activation="relu",
            task=graph.task,
        )
    )


class Dropout:
    """Zeroes entries of a layer's input at a rate; the masks of a step are assigned by position in the batch.

    The masks depend only on the step, but their assignment depends on the whole batch: a root's clipped
    gradient is a function of its own tree only for a given batch. So proofs that reveal the batch hold
    (theorem 2), but not those that keep it secret (theorems 1 and 3), and sound mode refuses dropout.
    """

    def __init__(self, rate: float, streams: Streams) -> None:
        self.rate, self.streams = rate, streams
        self.before_step(0)

    def before_step(self, step: int) -> None:
        """Start the masks of a step."""
        from dpgnn.models.masks import Masks

        self.masks = Masks(self.streams.torch("dropout", step=step))

    def __call__(self, a: Tensor) -> Tensor:
        """a with its mask."""
        mask = self.masks.draw(tuple(a.shape), self.rate)
        return a * mask.to(a.device, a.dtype)


def _gradients(
    config: DPARConfig, network: Network, x: Any, trees: Any, context: Context, clipping: Any
) -> tuple[RootGradients, Any]:
    """Sums of per-root gradients, and the function to call before each step."""
    from dpgnn.training.gradients import Execution, RootGradients

    speed = context.performance
    dropout = Dropout(config.dropout, context.streams) if config.dropout else None
    gradients = RootGradients(
        network, x, trees, clipping=clipping, dropout=dropout,
        execution=Execution(device=speed.device, chunk_rows=speed.chunk_size),
    )  # fmt: skip
    return gradients, None if dropout is None else dropout.before_step


def _train_private(
    config: DPARConfig, network: Network, x: Any, trees: Any, plan: Plan, context: Context
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    from dpgnn.methods.shared.private_training import epsilon_after
    from dpgnn.training.dp_sgd import from_mechanism, train

    mechanism = context.ledger.enter("train")
    spec = from_mechanism(mechanism, num_roots=trees.num_roots)
    gradients, before_step = _gradients(config, network, x, trees, context, spec.clipping)
    return train(
        spec, network, gradients, network.initial(rng=context.streams.numpy("weights")),
        config.optimizer, streams=context.streams, store=context.store,
        progress=context.progress(mechanism.num_steps), num_rows=HISTORY_ROWS,
        epsilon_spent=epsilon_after(mechanism, plan.claims[0].delta), before_step=before_step,
    )  # fmt: skip


def _train_plain(
    config: DPARConfig, network: Network, x: Any, trees: Any, plan: Plan, context: Context
) -> tuple[Mapping[str, Tensor], list[dict[str, Any]]]:
    from dpgnn.samplers.batches import FixedSizeBatches
    from dpgnn.training.minibatch import PlainRun, train

    gradients, before_step = _gradients(config, network, x, trees, context, None)
    batches = FixedSizeBatches(trees.num_roots, min(config.batch_size, trees.num_roots))
    run = PlainRun(num_steps=plan.num_steps, batches=batches, num_rows=HISTORY_ROWS)
    return train(
        run, network, gradients, network.initial(rng=context.streams.numpy("weights")),
        config.optimizer, streams=context.streams, store=context.store,
        progress=context.progress(plan.num_steps), before_step=before_step,
    )  # fmt: skip
