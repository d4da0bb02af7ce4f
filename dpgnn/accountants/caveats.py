"""Caveats: known gaps in published privacy claims.

Each id is a heading of docs/soundness.md, where a paragraph explains what is wrong, by how much, and what the
sound mode does instead. With `voids`, the stated epsilon is not a guarantee of the run; the other caveats
restrict a valid guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Caveat:
    """One gap, and whether it invalidates the stated guarantee.

    Attributes:
        title: a few words.
        voids: the stated guarantee does not hold for the run.
        control: the run is a control without privacy and belongs in no ranking.
    """

    title: str
    voids: bool
    control: bool = False


def _voids(title: str) -> Caveat:
    return Caveat(title=title, voids=True)


def _narrows(title: str) -> Caveat:
    return Caveat(title=title, voids=False)


CAVEATS: dict[str, Caveat] = {
    # any method
    "preprocessing": _narrows("preprocessing reads private data and is not counted"),
    "validation-unaccounted": _narrows("options were chosen on private validation nodes"),
    "test-selection": _narrows("the best test result was reported"),
    "inference-reads-private-graph": _narrows("predictions read private features and edges"),
    "float-arithmetic": _narrows("the proof is for real numbers"),
    "delta-too-large": _narrows("delta exceeds one over ten times the number of units"),
    "stop-rule-overshoot": _voids("training runs past the step that meets the budget"),
    "clip-thresholds-from-data": _voids("clipping norms are percentiles of private gradients"),
    # DP-GNN
    "sampler-ripple": _voids("one node changes more roots than the sampler's bound says"),
    "undirected-edges": _voids("edges are mirrored, so one node changes other nodes' lists"),
    "layerwise-noise": _voids("noise per layer is counted as if it were joint"),
    "with-replacement-batches": _voids("batches are drawn with replacement"),
    "population-changes": _narrows("add or remove changes the public number of roots"),
    "order-grid-floor": _narrows("the order grid ends early, so small epsilons read too high"),
    "fixed-size-as-poisson": _voids("fixed-size batches are counted as Poisson batches"),
    # DRW
    "feature-level-only": _narrows(
        "walks read edges freely: only features and labels are protected"
    ),
    "population-estimate": _narrows("the number of walks is a lower estimate of the real one"),
    # DPAR
    "epsilon-times-rate": _voids("amplification multiplies epsilon by the sampling rate"),
    "batch-sensitivity": _voids("one node moves many clipped gradients; one is counted"),
    "expectation-argument": _voids("expected updates are compared in place of their laws"),
    "fixed-batches": _voids("batches are reused over epochs but counted as fresh"),
    "appr-sensitivity": _voids("two page-rank vectors differ by sqrt(2) times the claimed norm"),
    "classical-gaussian-range": _voids("the classical Gaussian formula is used above epsilon 1"),
    "corollary-range": _voids("a composition corollary is used outside its range"),
    "output-universe": _voids("an added node changes the set of possible outputs"),
    "exact-neighbours": Caveat(
        title="a control that reads exact neighbours without noise", voids=True, control=True
    ),
    # CARIBOU, GAP, DPDGC, graph perturbation
    "unnoised-last-layer": _voids("a noise-free layer on the private edges follows the noise"),
    "node-sensitivity": _voids("the node-level sensitivity is smaller than what is attained"),
    "minimum-degree-from-data": _voids("the sensitivity uses the private graph's minimum degree"),
    "operator-without-self-loops": _voids("the operator differs from the one the bound is for"),
    "head-not-private": _voids("the classifier is trained on private nodes without noise"),
    "directed-sensitivity": _voids("an undirected edge changes two rows; one is counted"),
    "normalization-not-applied": _voids("the weights are not scaled as the noise assumes"),
    "degree-bound-unstable": _voids("the degree bound does not survive the removal of a node"),
    "own-row-uncounted": _voids("the node's own row and the output's shape are not counted"),
    "two-directions-perturbed": _voids("an undirected edge is answered twice and counted once"),
    "density-noise-scale": _voids("the noise on the density is smaller than its sensitivity needs"),
    # LPGNet
    "noise-reused": _voids("rows of different nodes and hops get the same noise"),
    "options-tuned-on-edges": _narrows("options were chosen by runs on the exact edges"),
    # HeterPoisson
    "sml-as-univariate": _voids("noise of one scale in all dimensions is counted in one"),
    "batch-padding": _voids("a gradient depends on the largest example of its batch"),
    "dedupe-order": _voids("roots later in the batch stay in the examples of earlier ones"),
    "steps-undercounted": _voids("more steps are run than are counted"),
}
