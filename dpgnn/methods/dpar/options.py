"""Options of DPAR."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpgnn.core.checks import (
    at_least,
    non_negative,
    one_of,
    open_probability,
    positive,
    probability,
    require,
)
from dpgnn.data.rows import RowNorm
from dpgnn.training.options import OptimizerConfig

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry

RowSource = Literal["em0", "em1", "gm", "none", "random", "true", "appr"]
Amplification = Literal["multiply", "correct", "none"]
BatchLaw = Literal["fixed", "poisson"]
ROW_SOURCES = ("em0", "em1", "gm", "none", "random", "true", "appr")
PRIVATE_ROWS = ("em0", "em1", "gm")
# rows that read exact neighbours without noise: controls, not private methods
EXACT_ROWS = ("true", "appr")


@dataclass(frozen=True, kw_only=True)
class DPARConfig:
    """Options of DPAR; the paper's letters in brackets.

    Attributes:
        rows: source of a root's neighbours. Private: "em0" (exponential mechanism, weights 1/K), "em1" (also
            noisy weights), "gm" (Gaussian mechanism). Controls: "none" (the root alone: Features), "random"
            (K uniform nodes, weights 1/K), "true" (the K largest exact entries, weights 1/K) and "appr" (the
            same with their exact weights); the last two read edges without noise. None takes em0, and appr
            without privacy.
        subsample_rate: fraction of the training nodes that is used (q'); None takes 0.09 in published and
            nonprivate mode and 1 in sound mode.
        amplification: rule for that subsample: "multiply" (epsilon times q', the paper's, which does not
            hold), "correct" (log(1 + q'(exp(epsilon) - 1)), the subsample is secret) or "none" (the subsample
            is public). None takes multiply in published and none in sound mode.
        num_vectors: personalised vectors (M), the first of the shuffled subsample; None takes all nodes.
        top_k: entries kept per vector (K).
        alpha, rho, gamma: teleport of the lazy walk, weight of the l1 term, tolerance of ISTA.
        solver: "coordinate" (fast), "ista" (as stated) or "push".
        max_vector_norm: L2 bound on a vector (C1), for gm.
        max_entry: bound on an entry (C2), for em0 and em1.
        rows_share: part of epsilon (published: also of delta) for the rows; training gets the rest, in sound
            mode by the composed curve.
        roots: "all" nodes of the subsample, where a node without a vector is its own only neighbour (the
            authors' code), or "vectors", only the M nodes (the paper's text).
        max_column_norm: L1 bound on a column of the weights (tau), which the paper does not state.
        rescale_columns: scale every column to exactly that norm, as in the authors' code.
        column_cap: largest number of other roots' rows that contain a node (s); sound mode, where a node
            changes s + 1 roots.
        batch_size: roots in a batch (B), the mean under Poisson.
        batches: "fixed" (uniform without replacement, fresh in each step) or "poisson"; None takes poisson
            in sound mode, else fixed.
        num_epochs: passes over the roots; the steps are num_epochs * ceil(roots / B).
        num_steps: optimiser steps (T); overrides num_epochs.
        clipping_norm: L2 bound on one root's gradient (C).
        dropout: rate before each layer while training, as in the authors' code; 0 in sound mode.
        width: hidden units.
        bias: whether the layers have biases.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        optimizer: turns noisy means into steps.
        power_iterations: propagation steps at inference (P); 0 for none.
        restart: weight of a node's own logits in each of them (a).
        noise_like: for the rows true and appr, which are not private: the training noise is that of a
            "published" or a "sound" run.
    """

    rows: RowSource | None = None
    subsample_rate: float | None = None
    amplification: Amplification | None = None
    num_vectors: int | None = 70
    top_k: int = 2
    alpha: float = 0.25
    rho: float = 1e-4
    gamma: float = 1e-4
    solver: Literal["coordinate", "ista", "push"] = "coordinate"
    max_vector_norm: float = 0.01
    max_entry: float = 0.001
    rows_share: float = 0.5
    roots: Literal["all", "vectors"] = "all"
    max_column_norm: float = 1.0
    rescale_columns: bool = False
    column_cap: int = 2
    batch_size: int = 60
    batches: BatchLaw | None = None
    num_epochs: int = 200
    num_steps: int | None = None
    clipping_norm: float = 1.0
    dropout: float = 0.0
    width: int = 32
    bias: bool = False
    row_norm: RowNorm = "none"
    optimizer: OptimizerConfig = OptimizerConfig(lr=0.005)
    power_iterations: int = 2
    restart: float = 0.25
    noise_like: Literal["published", "sound"] = "published"

    def __post_init__(self) -> None:
        one_of("rows", self.rows, (None, *ROW_SOURCES))
        if self.subsample_rate is not None:
            rule = "be in (0, 1]"
            require(0 < self.subsample_rate <= 1, "subsample_rate", rule, self.subsample_rate)
        one_of("amplification", self.amplification, (None, "multiply", "correct", "none"))
        if self.num_vectors is not None:
            at_least("num_vectors", self.num_vectors, 1)
        for name in ("top_k", "batch_size", "num_epochs", "width"):
            at_least(name, getattr(self, name), 1)
        if self.num_steps is not None:
            at_least("num_steps", self.num_steps, 1)
        for name in ("alpha", "rows_share"):
            open_probability(name, getattr(self, name))
        for name in ("rho", "max_vector_norm", "max_entry", "max_column_norm", "clipping_norm"):
            positive(name, getattr(self, name))
        non_negative("gamma", self.gamma)
        one_of("solver", self.solver, ("coordinate", "ista", "push"))
        one_of("roots", self.roots, ("all", "vectors"))
        one_of("batches", self.batches, (None, "fixed", "poisson"))
        at_least("column_cap", self.column_cap, 0)
        at_least("power_iterations", self.power_iterations, 0)
        probability("restart", self.restart)
        require(0 <= self.dropout < 1, "dropout", "be in [0, 1)", self.dropout)
        one_of("noise_like", self.noise_like, ("published", "sound"))

    def num_members(self, num_train: int) -> int:
        """N = ceil(q' num_train), nodes of the subsample (of resolved options)."""
        assert self.subsample_rate is not None
        # 1e-9: an integer product must not be rounded up
        return max(1, math.ceil(self.subsample_rate * num_train - 1e-9))

    def vectors_of(self, num_members: int) -> int:
        """M, at most N."""
        return num_members if self.num_vectors is None else min(self.num_vectors, num_members)

    def num_roots(self, num_members: int) -> int:
        """Roots that training draws from."""
        return num_members if self.roots == "all" else self.vectors_of(num_members)

    def steps(self, num_roots: int) -> int:
        """T, public."""
        if self.num_steps is not None:
            return self.num_steps
        return self.num_epochs * math.ceil(num_roots / self.batch_size)


def resolved(entry: Entry) -> DPARConfig:
    """The entry's options with the mode's defaults filled in."""
    config: DPARConfig = entry.options
    sound = entry.mode == "sound" or is_control_of_sound(entry)
    private = entry.mode != "nonprivate"
    return dataclasses.replace(
        config,
        rows=config.rows or ("em0" if private else "appr"),
        subsample_rate=config.subsample_rate or (1.0 if sound else 0.09),
        amplification=config.amplification or ("none" if sound else "multiply"),
        batches=config.batches or ("poisson" if sound else "fixed"),
    )


def is_control_of_sound(entry: Entry) -> bool:
    """Whether the entry uses exact rows with the training noise of a sound run."""
    config: DPARConfig = entry.options
    return entry.mode == "published" and config.noise_like == "sound"


def check(entry: Entry, path: str) -> None:
    """Refuse options that do not go together with the entry's mode.

    Raises:
        ValueError: names the option.
    """
    config = resolved(entry)
    if entry.mode == "nonprivate":
        rule = "need no noise without privacy: none, random, true or appr"
        require(config.rows not in PRIVATE_ROWS, f"{path}: rows", rule, config.rows)
        require(config.batches == "fixed", f"{path}: batches", "be fixed without privacy",
                config.batches)  # fmt: skip
        return
    if entry.mode == "sound":
        remedy = "they read exact edges; use them in published mode, where the record says so"
        require(config.rows not in EXACT_ROWS, f"{path}: rows", "be private or public in sound mode",
                config.rows, remedy)  # fmt: skip
        one_of(f"{path}: amplification of mode sound", config.amplification, ("correct", "none"))
        require(config.dropout == 0, f"{path}: dropout", "be 0 in sound mode", config.dropout,
                "masks go by place in the batch: one root's coin moves those of others")  # fmt: skip
        require(entry.relation == "replace-one", f"{path}: relation", "be replace-one in sound mode",
                entry.relation, "an added node changes what can be selected")  # fmt: skip
        return
    if config.noise_like == "sound":
        require(config.rows in EXACT_ROWS, f"{path}: noise_like", "be published for these rows",
                config.noise_like)  # fmt: skip
        one_of(f"{path}: amplification like sound", config.amplification, ("correct", "none"))
    else:
        require(config.batches == "fixed", f"{path}: batches", "be fixed in published mode",
                config.batches)  # fmt: skip
