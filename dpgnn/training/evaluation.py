"""Metrics on held-out nodes and intervals over repeats."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpgnn.core.checks import require


def metrics(
    logits: np.ndarray, y: np.ndarray, *, task: str, num_classes: int, dataset: str = ""
) -> dict[str, Any]:
    """Accuracy, F1 and class-wise recall of predictions on some nodes.

    Args:
        logits: float, shape (num_nodes, num_classes); finite.
        y: int64 (num_nodes,) with no -1, or uint8 (num_nodes, num_labels).
        task: "multiclass" or "multilabel".
        num_classes: number of classes or labels.
        dataset: its name; OGB's are scored by OGB's own evaluator if it is installed.

    Returns:
        accuracy: fraction of right classes (multiclass) or right labels (multilabel), in [0, 1].
        micro_f1, macro_f1: in [0, 1], 0 without any label; micro_f1 equals accuracy for multiclass.
        per_class_accuracy: recall of each class; None for a class without nodes.
        per_class_count: nodes of each class.
        num_nodes: number of scored nodes.

    Raises:
        ValueError: a logit is not finite, or there are no nodes.
    """
    require(len(y) > 0, "evaluation", "have at least one node", 0)
    require(bool(np.isfinite(logits).all()), "logits", "be finite", "one that is not")
    truth, guess = _decisions(logits, y, task, num_classes)
    hits, counts = (truth & guess).sum(0), truth.sum(0)
    both = counts + guess.sum(0)  # nodes of a class in both true and predicted classes
    f1 = np.divide(2.0 * hits, both, out=np.zeros(len(hits)), where=both > 0)
    micro = 2.0 * hits.sum() / max(int(both.sum()), 1)
    accuracy = float((truth == guess).mean()) if task == "multilabel" else float(micro)
    if dataset.startswith("ogbn-"):
        accuracy = _of_ogb(dataset, logits.argmax(1), y, accuracy)
    return {
        "accuracy": accuracy,
        "micro_f1": float(micro),
        "macro_f1": float(f1[both > 0].mean()) if both.any() else 0.0,
        "per_class_accuracy": [float(h / c) if c else None for h, c in zip(hits, counts)],
        "per_class_count": [int(count) for count in counts],
        "num_nodes": len(y),
    }


def _decisions(
    logits: np.ndarray, y: np.ndarray, task: str, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """True and predicted classes of each node; bool, shape (num_nodes, num_classes)."""
    if task == "multilabel":
        return y.astype(bool), logits > 0
    classes = np.arange(num_classes)
    return y[:, None] == classes, logits.argmax(1)[:, None] == classes


def _of_ogb(dataset: str, guess: np.ndarray, y: np.ndarray, ours: float) -> float:
    """Accuracy by OGB's evaluator, or ours (the same number) if the package ogb is not installed."""
    modules: dict[str, Any] = sys.modules
    hidden = "outdated" not in modules
    if hidden:  # ogb would look for a newer version on the internet
        modules["outdated"] = None
    try:
        from ogb.nodeproppred import Evaluator
    except ImportError:
        return ours
    finally:
        if hidden:
            del modules["outdated"]
    found = Evaluator(dataset).eval({"y_true": y[:, None], "y_pred": guess[:, None]})
    return float(found["acc"])


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean over repeats; std, low and high are None if there is only one repeat.

    Attributes:
        mean: of the values.
        std: sample standard deviation (ddof 1).
        low, high: ends of a Student t interval.
        n: number of repeats.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    n: int

    def within_0_and_1(self) -> Interval:
        """The interval restricted to [0, 1]."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(0.0, self.low), high=min(1.0, self.high))


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Mean, sample standard deviation and a Student t interval over repeats.

    Args:
        values: one number per repeat.
        level: confidence level in (0, 1).

    Raises:
        ValueError: no values.
    """
    from scipy.special import stdtrit  # Student's t; scipy.stats takes a second to import

    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    require(n > 0, "values", "hold at least one number", values)
    mean = float(array.mean())
    if n == 1:
        return Interval(mean=mean, std=None, low=None, high=None, n=1)
    std = float(array.std(ddof=1))
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * std / math.sqrt(n)
    return Interval(mean=mean, std=std, low=mean - half, high=mean + half, n=n)
