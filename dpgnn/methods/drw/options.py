"""Options of DRW."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpgnn.accountants.published_drw import smallest_population
from dpgnn.core.checks import at_least, one_of, positive, require
from dpgnn.data.rows import RowNorm
from dpgnn.training.options import OptimizerConfig

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry

Sampler = Literal["walks", "own-list", "nodes"]
BatchLaw = Literal["fixed", "poisson"]
Accountant = Literal["wang", "wang-forward-difference", "unamplified", "rdp", "pld"]
ClipReading = Literal["constant", "times-percentile", "quantile"]
PUBLISHED_ACCOUNTANTS = ("wang", "wang-forward-difference", "unamplified")
PROVED_ACCOUNTANTS = ("pld", "rdp")


@dataclass(frozen=True, kw_only=True)
class DRWConfig:
    """Options of DRW; the paper's letters in brackets.

    Attributes:
        sampler: "walks" (disjoint random walks; a GCN), "own-list" (each node sends its features to one
            node of its own list; a GCN) or "nodes" (each training node by itself: an MLP of the same
            shape on uniform batches); None takes own-list for the unit node-record, else walks.
        num_layers: number of layers and walk length (L): 1 or 2.
        width: units of the hidden layer; not used by one layer.
        num_restarts: walks from one root (R); 2 is DRW-R.
        resample_every: steps after which the walks are redrawn, DRW-D; 0 draws them once.
        batch_size: subgraphs in a batch (m), the mean under Poisson; None takes `batch_fraction`.
        batch_fraction: of the smallest number of walks M_min (of the training nodes without walks), if
            batch_size is None.
        batches: "fixed" (uniform without replacement, the paper) or "poisson".
        population: published mode: the sampling rate is m over the "smallest" number of walks (M_min, the
            paper) or over the number "drawn" (M); sound mode always takes M.
        accountant: published mode: "wang" (Wang et al., basic sum, capped), "wang-forward-difference",
            "unamplified"; sound mode: "pld" (exact) or "rdp"; None takes the first of the mode.
        noise_multiplier: noise over 2C (lambda), 2C being the reference sensitivity; None calibrates the
            noise to num_steps.
        num_steps: optimiser steps (T) if the noise is calibrated, an upper limit if it is given; None takes
            as many as the budget allows.
        clipping_norm: the paper's undefined "clip norm percentage" C%, read as `clip_reading` says.
        clip_reading: "constant" (C = clipping_norm), "times-percentile" (C = clipping_norm times the 75th
            percentile of the roots' gradient norms before training) or "quantile" (C = the
            clipping_norm-quantile of those norms); the last two read private data without spending budget.
        normalization: of the adjacency with self-loops inside a subgraph and at inference: "symmetric"
            (D^-1/2 A D^-1/2) or "mean" (D^-1 A).
        edges: inside a walk: "induced" (all edges among its nodes) or "walk" (only its steps).
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        optimizer: turns noisy means into steps; post-processing.
        selection: without privacy: "best_validation" or "last"; private runs always release the last step.
    """

    sampler: Sampler | None = None
    num_layers: int = 1
    width: int = 256
    num_restarts: int = 1
    resample_every: int = 0
    batch_size: int | None = None
    batch_fraction: float = 0.44
    batches: BatchLaw = "fixed"
    population: Literal["smallest", "drawn"] = "smallest"
    accountant: Accountant | None = None
    noise_multiplier: float | None = 4.0
    num_steps: int | None = None
    clipping_norm: float = 0.01
    clip_reading: ClipReading = "constant"
    normalization: Literal["symmetric", "mean"] = "symmetric"
    edges: Literal["induced", "walk"] = "induced"
    row_norm: RowNorm = "none"
    optimizer: OptimizerConfig = OptimizerConfig(lr=0.01)
    selection: Literal["best_validation", "last"] = "best_validation"

    def __post_init__(self) -> None:
        one_of("sampler", self.sampler, (None, "walks", "own-list", "nodes"))
        require(self.num_layers in (1, 2), "num_layers", "be 1 or 2", self.num_layers)
        at_least("width", self.width, 1)
        at_least("num_restarts", self.num_restarts, 1)
        at_least("resample_every", self.resample_every, 0)
        if self.sampler not in (None, "walks"):
            remedy = "only disjoint walks restart and are drawn again"
            require(self.num_restarts == 1, "num_restarts", "be 1", self.num_restarts, remedy)
            require(self.resample_every == 0, "resample_every", "be 0", self.resample_every, remedy)
        if self.batch_size is not None:
            at_least("batch_size", self.batch_size, 1)
        rule = "be in (0, 1]"
        require(0 < self.batch_fraction <= 1, "batch_fraction", rule, self.batch_fraction)
        one_of("batches", self.batches, ("fixed", "poisson"))
        one_of("population", self.population, ("smallest", "drawn"))
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)
        if self.num_steps is not None:
            at_least("num_steps", self.num_steps, 1)
        positive("clipping_norm", self.clipping_norm)
        one_of("clip_reading", self.clip_reading, ("constant", "times-percentile", "quantile"))
        if self.clip_reading == "quantile":
            require(self.clipping_norm < 1, "clipping_norm", "be < 1 as a quantile",
                    self.clipping_norm)  # fmt: skip
        one_of("selection", self.selection, ("best_validation", "last"))

    @property
    def walk_length(self) -> int:
        """L: steps of a walk; 0 without walks (of resolved options)."""
        return self.num_layers if self.sampler == "walks" else 0

    @property
    def conv(self) -> Literal["symmetric", "gcn"]:
        """The aggregation by the engine's name."""
        return "symmetric" if self.normalization == "symmetric" else "gcn"

    def smallest_population(self, num_train: int) -> int:
        """M_min = ceil(N / (1 + R L)), N for sampler nodes; training nodes for the own-list sampler."""
        return smallest_population(num_train, self.walk_length, self.num_restarts)

    def subgraphs_in_batch(self, num_train: int) -> int:
        """m, from batch_size or batch_fraction."""
        if self.batch_size is not None:
            return self.batch_size
        return max(1, int(self.batch_fraction * self.smallest_population(num_train)))


def resolved(entry: Entry) -> DRWConfig:
    """The entry's options with its unit's sampler filled in."""
    config: DRWConfig = entry.options
    if config.sampler is not None:
        return config
    own = entry.privacy_unit == "node-record"
    return dataclasses.replace(config, sampler="own-list" if own else "walks")


def check(entry: Entry, path: str) -> None:
    """Refuse options that do not go together with the entry's mode and unit.

    Raises:
        ValueError: names the option.
    """
    config = resolved(entry)
    if entry.mode == "nonprivate":
        require(config.batches == "fixed", f"{path}: batches", "be fixed without privacy",
                config.batches)  # fmt: skip
        return
    sampler = f"{path}: sampler under {entry.privacy_unit}"
    if entry.privacy_unit == "node-record":
        one_of(sampler, config.sampler, ("own-list",))
    if config.noise_multiplier is None:
        remedy = "or give noise_multiplier and let the budget decide on the steps"
        require(config.num_steps is not None, f"{path}: num_steps", "be given", None, remedy)
    allowed: tuple[str, ...] = PROVED_ACCOUNTANTS
    if entry.mode == "published":
        one_of(sampler, config.sampler, ("walks", "nodes"))
        require(config.batches == "fixed", f"{path}: batches", "be fixed in published mode",
                config.batches)  # fmt: skip
        allowed = PUBLISHED_ACCOUNTANTS
    else:
        remedy = "a norm read from private gradients spends budget that is not counted"
        require(config.clip_reading == "constant", f"{path}: clip_reading",
                "be constant in sound mode", config.clip_reading, remedy)  # fmt: skip
    one_of(f"{path}: accountant of mode {entry.mode}", config.accountant, (None, *allowed))
