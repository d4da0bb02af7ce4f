"""Training of DP-GNN: clipping norms first (stated, measured or chosen privately), then the planned steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, compose, parts
from dpgnn.core.exact_selection import largest_with_gumbel
from dpgnn.methods.dp_gnn.options import DPGNNConfig, clipped_parts, part_names, threshold_rule
from dpgnn.methods.dp_gnn.plan import NUM_CANDIDATES, TRAIN, threshold_name
from dpgnn.methods.releases import Calls, Move, event_of, release
from dpgnn.methods.shared.private_training import HISTORY_ROWS, epsilon_after

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism
    from dpgnn.methods.base import Context, Entry
    from dpgnn.models.network import Network
    from dpgnn.models.trees import Trees
    from dpgnn.training.clipping import Clipping
    from dpgnn.training.gradients import RootGradients
    from dpgnn.training.modules.masks import Masks
    from dpgnn.training.noise import Noise

Evaluate = Callable[[Mapping[str, Any]], Mapping[str, float]]
# number of roots whose gradients a published run measures, as in the authors' code
NUM_MEASURED = 10_000
# a part with zero gradients at the start (a dead layer) still needs a norm > 0
SMALLEST_NORM = 1e-6
CANDIDATES = np.geomspace(1e-4, 1e4, NUM_CANDIDATES)


def train_private(
    entry: Entry,
    network: Network,
    x: Any,
    trees: Trees,
    context: Context,
    *,
    delta: float,
    evaluate: Evaluate,
) -> tuple[dict[str, Tensor], list[dict[str, Any]], dict[str, Any]]:
    """Run the planned mechanisms.

    Guarantee: in sound mode the weights are post-processing of the plan's mechanisms: norms are public or
    come from mechanisms of the plan, and noise is the planned multiple of them. None with measured thresholds
    (published): see the caveat `clip-thresholds-from-data`.

    Returns:
        named weights, history, and the norms for the record ({} if they are sensitive).
    """
    from dpgnn.training.gradients import Execution
    from dpgnn.training.shared import root_gradients

    speed = context.performance
    with root_gradients(
        network, x, trees, clipping=None, num_processes=speed.num_processes,
        execution=Execution(device=speed.device, chunk_rows=speed.chunk_size), masks=_masks(entry),
    ) as gradients:  # fmt: skip
        weights, history, norms = _train(entry, gradients, context, delta, evaluate)
        details = gradients.stated()
    shown = threshold_rule(entry) != "percentile" or context.streams.randomness == "study"
    return weights, history, details | ({"clipping_norms": norms} if shown else {})


def _masks(entry: Entry) -> Masks | None:
    """Masks of the dropout in a user's module; the built-in networks have none."""
    from dpgnn.training.modules.masks import Masks

    return Masks() if entry.options.module else None


def _new_masks(gradients: RootGradients, context: Context) -> Callable[[int], None] | None:
    """Start the masks of each step from its own stream."""
    masks = gradients.masks
    if masks is None:
        return None
    return lambda step: masks.at(context.streams.seed("dropout", stage=TRAIN, step=step))


def _train(
    entry: Entry, gradients: RootGradients, context: Context, delta: float, evaluate: Evaluate
) -> tuple[dict[str, Tensor], list[dict[str, Any]], dict[str, float]]:
    """Clipping norms first, then the planned steps; also returns the norms."""
    from dpgnn.training.dp_sgd import from_mechanism, train

    network = gradients.network
    initial = network.initial(rng=context.streams.numpy("weights"))
    if context.streams.is_secret("noise"):
        gradients.sum_for_release()  # before norms are measured: none of them may depend on other roots
    clipping = clipping_of(entry, gradients, initial, context)
    gradients.clip(clipping)
    mechanism = in_units_of(context.ledger.enter(TRAIN), clipping.total_norm)
    spec = from_mechanism(
        mechanism, num_roots=gradients.trees.num_roots, clipping=clipping,
        noise=_noise(entry, clipping, mechanism),
    )  # fmt: skip
    weights, history = train(
        spec, network, gradients, initial, entry.options.training.optimizer,
        streams=context.streams, store=context.store,
        progress=context.progress(mechanism.num_steps), stage=TRAIN,
        epsilon_spent=_spent(entry, mechanism, delta), evaluate=evaluate, num_rows=HISTORY_ROWS,
        before_step=_new_masks(gradients, context),
    )  # fmt: skip
    return weights, history, dict(clipping.norms)


def train_plain(
    entry: Entry, network: Network, x: Any, trees: Trees, context: Context, evaluate: Evaluate
) -> tuple[dict[str, Tensor], list[dict[str, Any]], dict[str, Any]]:
    """The same network on the same sampled subgraphs without clipping and noise."""
    from dpgnn.samplers.batches import FixedSizeBatches
    from dpgnn.training.gradients import Execution, RootGradients
    from dpgnn.training.minibatch import PlainRun, train

    config: DPGNNConfig = entry.options
    batch_size = config.training.batch_size(trees.num_roots)
    gradients = RootGradients(
        network, x, trees, clipping=None, masks=_masks(entry),
        execution=Execution(device=context.performance.device),
    )  # fmt: skip
    weights, history = train(
        PlainRun(
            num_steps=config.training.num_steps, selection=config.selection,
            batches=FixedSizeBatches(trees.num_roots, batch_size),
        ),
        network, gradients, network.initial(rng=context.streams.numpy("weights")), config.training.optimizer,
        streams=context.streams, store=context.store,
        progress=context.progress(config.training.num_steps), evaluate=evaluate,
        before_step=_new_masks(gradients, context),
    )  # fmt: skip
    return weights, history, gradients.stated()


def clipping_of(
    entry: Entry, gradients: RootGradients, initial: Tensor, context: Context
) -> Clipping:
    """The bounds on one root's gradient, by the entry's rule, which may measure `gradients`."""
    from dpgnn.training.clipping import Clipping, uniform_clipping

    config: DPGNNConfig = entry.options
    per, rule = clipped_parts(entry), threshold_rule(entry)
    if rule == "public":
        return uniform_clipping(gradients.network, per, config.training.clipping_norm)
    names, num_roots = part_names(entry), gradients.trees.num_roots
    initial = initial.to(gradients.device)
    if context.streams.is_secret("gumbel"):
        gradients.sum_for_release()  # a user's module is measured one root at a time, too
    if rule == "percentile":
        rng = context.streams.numpy("thresholds")
        chosen = np.sort(rng.choice(num_roots, min(NUM_MEASURED, num_roots), replace=False))
        norms = gradients.part_norms(initial, chosen, per)
        found = np.quantile(norms, config.quantile, axis=1)
        found = np.maximum(found, SMALLEST_NORM)
    else:
        norms = gradients.part_norms(initial, np.arange(num_roots), per)
        found = np.array(
            [
                private_quantile(row, context.ledger.enter(threshold_name(name)),
                                 rng=context.streams.numpy("gumbel", part=name),
                                 exactly=context.streams.is_secret("gumbel"))
                for name, row in zip(names, norms)
            ]
        )  # fmt: skip
    return Clipping(per=per, norms=dict(zip(names, found.tolist())))


def _rank_moves(seen: Calls) -> Move:
    """Largest change of a candidate's rank, over the calls of one threshold."""
    ranks = []
    for calls in (seen.first, seen.second):
        (values,) = [c["values"] for c in calls if c["mechanism"].name == seen.mechanism.name]
        ranks.append(ranks_of_candidates(values))
    moved = float(np.abs(ranks[0] - ranks[1]).max())
    return Move(moved=moved, allowed=event_of(seen.mechanism).score_sensitivity)


def ranks_of_candidates(values: np.ndarray) -> np.ndarray:
    """Number of values that are at most each candidate; int64, shape (num_candidates,)."""
    return np.searchsorted(np.sort(values), CANDIDATES, side="right")


@release({threshold_name(""): _rank_moves}, is_read=False)
def private_quantile(
    values: np.ndarray, mechanism: Mechanism, *, rng: np.random.Generator, exactly: bool = False
) -> float:
    """A candidate norm whose rank is near the target quantile.

    Guarantee: the report of a noisy maximum with Gumbel noise of the mechanism's scale; a score
    -|#{values <= candidate} - wanted rank| moves by at most one per changed root, and the wanted rank
    and the candidates are public.
    """
    scores = -np.abs(ranks_of_candidates(values) - mechanism.details["wanted_rank"])
    scale = mechanism.details["scale"]
    if exactly:  # for releases: rounding does not affect the result
        (best,) = largest_with_gumbel(scores.astype(np.float64), scale, 1, rng=rng)
        return float(CANDIDATES[best])
    noisy = scores + rng.gumbel(scale=scale, size=len(scores))
    return float(CANDIDATES[int(np.argmax(noisy))])


def in_units_of(mechanism: Mechanism, clipping_norm: float) -> Mechanism:
    """The planned mechanism with every length in units of a clipping norm that was found in the run.

    The ratio of noise to clipping norm, on which accounting depends, is unchanged.
    """
    assert mechanism.clipping_norm is not None
    if mechanism.clipping_norm == clipping_norm:
        return mechanism
    factor = clipping_norm / mechanism.clipping_norm
    (event, count), *_ = parts(mechanism.event)
    assert isinstance(event, (PoissonRoots, FixedSizeRoots))
    scaled = replace(event, noise_stddev=event.noise_stddev * factor, clipping_norm=clipping_norm)
    return replace(
        mechanism, event=compose(scaled, count), clipping_norm=clipping_norm,
        noise_stddev=mechanism.noise_stddev * factor, sensitivity=mechanism.sensitivity * factor,
    )  # fmt: skip


def _noise(entry: Entry, clipping: Clipping, mechanism: Mechanism) -> Noise:
    """Noise with the mechanism's multiplier, split over the parts as the mode says.

    The paper states one deviation per part in proportion to its norm (`scaled`): the plan has already divided
    its multiplier by sqrt(L). The authors' code uses one deviation for all (`joint`).
    """
    from dpgnn.training.noise import joint_noise, scaled_noise

    config: DPGNNConfig = entry.options
    joint = config.reference_code if entry.mode == "published" else config.noise == "joint"
    return (joint_noise if joint else scaled_noise)(clipping, mechanism.noise_stddev)


def _spent(entry: Entry, mechanism: Mechanism, delta: float) -> Callable[[int], float]:
    """Steps -> epsilon of the training's steps, for the history; the claim counts noisy thresholds too.

    Sound: by composed losses, with any accountant of the claim. Published: by the claim's accountant.
    """
    from dpgnn.accountants import published, rdp

    if entry.mode == "sound":
        return epsilon_after(mechanism, delta)
    (event, _), *_ = parts(mechanism.event)
    assert isinstance(event, FixedSizeRoots)
    ratio = mechanism.details["stated_noise_multiplier"] / mechanism.details["noise_multiplier"]
    stated = replace(event, noise_stddev=event.noise_stddev * ratio)
    orders = rdp.REFERENCE_ORDERS if entry.options.reference_code else rdp.WIDE_ORDERS
    return lambda steps: published.dpgnn_epsilon(stated, steps, delta, orders=orders)
