"""HeterPoisson's training loops: private steps, or the same without clipping and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dpgnn.methods.heterpoisson.plan import TRAIN
from dpgnn.methods.heterpoisson.sums import DrawnSums, FreshSums, PublishedSums
from dpgnn.methods.shared.private_training import HISTORY_ROWS, epsilon_after

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism
    from dpgnn.methods.base import Context, PlannedRun
    from dpgnn.models.network import Network
    from dpgnn.training.clipping import Clipping
    from dpgnn.training.dp_sgd import DPSGD

Trained = tuple["dict[str, Tensor]", list[dict[str, Any]]]
Evaluate = Callable[[Mapping[str, Any]], Mapping[str, float]]


def train_private(
    run: PlannedRun, network: Network, x: Any, arcs: np.ndarray, evaluate: Evaluate
) -> Trained:
    """Enter the mechanism and run its steps, each on trees of its own key.

    Guarantee (sound): see `training.dp_sgd.train`; the sums are those of `FreshSums`.
    """
    from dpgnn.training.clipping import global_clipping
    from dpgnn.training.dp_sgd import from_mechanism, train

    entry, context, train_idx = run.entry, run.context, run.split.train_idx
    mechanism = context.ledger.enter(TRAIN)
    assert mechanism.clipping_norm is not None and mechanism.divisor is not None  # noqa: PT018
    clipping = global_clipping(mechanism.clipping_norm)
    common = (entry.options, network, run.graph, x, train_idx, arcs, clipping, context)
    sums: DrawnSums
    if entry.mode == "sound":
        sums = FreshSums(*common)
        spec = from_mechanism(mechanism, num_roots=len(train_idx), clipping=clipping)
    else:
        # the sums add their own noise and divide by the realised batch
        sums = PublishedSums(
            *common, noise_stddev=mechanism.noise_stddev, divisor=mechanism.divisor
        )
        spec = _published_spec(mechanism, clipping, len(train_idx), context)
    spent = epsilon_after(mechanism, run.plan.claims[0].delta) if entry.mode == "sound" else None
    return train(
        spec, network, sums,  # type: ignore[arg-type]
        network.initial(rng=context.streams.numpy("weights")), entry.options.optimizer,
        streams=context.streams, store=context.store,
        progress=context.progress(mechanism.num_steps), stage=TRAIN, epsilon_spent=spent,
        evaluate=evaluate, num_rows=HISTORY_ROWS, before_step=sums.before_step,
    )  # fmt: skip


def _published_spec(
    mechanism: Mechanism, clipping: Clipping, num_roots: int, context: Context
) -> DPSGD:
    """The loop around `PublishedSums`, which adds its own noise; the loop adds almost none."""
    from dpgnn.samplers.batches import PoissonBatches
    from dpgnn.training.dp_sgd import DPSGD
    from dpgnn.training.noise import joint_noise

    assert mechanism.divisor is not None
    rate = mechanism.details["sampling_probability"]
    # a release rounds to a noise grid: negligible noise beside the existing one
    further = 1e-9 * mechanism.noise_stddev if context.streams.is_secret("noise") else 0.0
    return DPSGD(
        num_steps=mechanism.num_steps, batches=PoissonBatches(num_roots, rate),
        clipping=clipping, noise=joint_noise(clipping, further), divisor=mechanism.divisor,
    )  # fmt: skip


def train_plain(
    run: PlannedRun, network: Network, x: Any, arcs: np.ndarray, evaluate: Evaluate
) -> Trained:
    """The same network and trees without clipping and noise."""
    from dpgnn.samplers.batches import FixedSizeBatches
    from dpgnn.training.minibatch import PlainRun, train

    config, context, train_idx = run.entry.options, run.context, run.split.train_idx
    sums = FreshSums(config, network, run.graph, x, train_idx, arcs, None, context)
    steps = PlainRun(
        num_steps=run.plan.num_steps, selection="last",
        batches=FixedSizeBatches(len(train_idx), config.batch_size),
    )  # fmt: skip
    return train(
        steps, network, sums,  # type: ignore[arg-type]
        network.initial(rng=context.streams.numpy("weights")), config.optimizer,
        streams=context.streams, store=context.store,
        progress=context.progress(run.plan.num_steps),
        evaluate=evaluate, before_step=sums.before_step,
    )  # fmt: skip
