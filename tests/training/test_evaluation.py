from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import f1_score

from dpgnn.training.evaluation import mean_interval, metrics


def test_multiclass_metrics_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, logits = rng.integers(0, 4, 200), rng.normal(size=(200, 5))
    found = metrics(logits, y, task="multiclass", num_classes=5)
    guess = logits.argmax(1)
    assert found["accuracy"] == pytest.approx((guess == y).mean())
    assert found["micro_f1"] == pytest.approx(f1_score(y, guess, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(y, guess, average="macro"))
    assert found["per_class_count"] == [*np.bincount(y, minlength=4), 0]
    assert found["per_class_accuracy"][4] is None
    assert found["per_class_accuracy"][1] == pytest.approx((guess[y == 1] == 1).mean())


def test_multilabel_metrics_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, logits = rng.integers(0, 2, (100, 6)).astype(np.uint8), rng.normal(size=(100, 6))
    found = metrics(logits, y, task="multilabel", num_classes=6)
    assert found["micro_f1"] == pytest.approx(f1_score(y, logits > 0, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(y, logits > 0, average="macro"))
    assert found["accuracy"] == pytest.approx(((logits > 0) == y).mean())


def test_without_a_true_or_predicted_label_both_f1_are_zero() -> None:
    found = metrics(-np.ones((3, 2)), np.zeros((3, 2), np.uint8), task="multilabel", num_classes=2)
    assert (found["micro_f1"], found["macro_f1"], found["accuracy"]) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-products", "ogbn-mag"])
def test_accuracy_is_what_the_ogb_evaluator_says(name: str) -> None:
    from ogb.nodeproppred import Evaluator

    rng = np.random.default_rng(0)
    y, logits = rng.integers(0, 40, 500), rng.normal(size=(500, 40))
    theirs = Evaluator(name).eval({"y_true": y[:, None], "y_pred": logits.argmax(1)[:, None]})
    assert metrics(logits, y, task="multiclass", num_classes=40)["accuracy"] == theirs["acc"]


def test_data_sets_of_ogb_are_scored_by_its_evaluator_without_asking_the_internet() -> None:
    code = """
import sys
import numpy as np
from dpgnn.training.evaluation import metrics
rng = np.random.default_rng(0)
y, logits = rng.integers(0, 40, 500), rng.normal(size=(500, 40))
plain = metrics(logits, y, task="multiclass", num_classes=40)
assert "ogb" not in sys.modules
metrics(logits, y, task="multiclass", num_classes=40, dataset="cora")
assert "ogb" not in sys.modules
assert metrics(logits, y, task="multiclass", num_classes=40, dataset="ogbn-arxiv") == plain
from ogb.nodeproppred import Evaluator
import ogb.version
assert ogb.version.check_outdated is None, "no thread asks for a newer version"
Evaluator.eval = lambda self, given: {"acc": 0.25}
assert metrics(logits, y, task="multiclass", num_classes=40, dataset="ogbn-mag")["accuracy"] == 0.25
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_logits_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="logits must be finite"):
        metrics(np.array([[np.nan, 1.0]]), np.array([0]), task="multiclass", num_classes=2)
    with pytest.raises(ValueError, match="evaluation must have at least one node"):
        metrics(np.zeros((0, 2)), np.zeros(0, int), task="multiclass", num_classes=2)


def test_intervals_are_students_t() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.302652729911275, std = 1
    half = 4.302652729911275 / np.sqrt(3)
    assert found.mean == 2.0
    assert found.std == 1.0
    assert found.high == pytest.approx(2 + half)
    assert found.low == pytest.approx(2 - half)
    assert mean_interval([1.0]).low is None
