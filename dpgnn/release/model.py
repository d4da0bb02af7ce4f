"""A fitted private model: its claims, and answers that state who may see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.claims import Answers
from dpgnn.core.checks import fail, require
from dpgnn.data.files.content import features_hash
from dpgnn.methods.base import Fitted
from dpgnn.release.bundle import save
from dpgnn.release.data import graph_of, positions
from dpgnn.release.released import Released
from dpgnn.run.method_checks import check_answer
from dpgnn.run.record import ROWS_FOR, rows_for

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Answers about nodes.

    Attributes:
        nodes: int64, shape (num_asked,), their positions.
        classes: int64, shape (num_asked,); uint8 (num_asked, num_labels) for several labels a node.
        names: of the answers' classes, if the model has names and one class for each node.
        probabilities: float32, shape (num_asked, num_classes): softmax, or each label's own.
        answers: who may see them; `covered` is False if no claim covers them.
        note: why.
    """

    nodes: np.ndarray
    classes: np.ndarray
    names: tuple[str, ...] = ()
    probabilities: np.ndarray
    answers: Answers
    note: str

    @property
    def covered(self) -> bool:
        """Whether the claim covers showing these answers to the audience in `answers`."""
        return self.answers != "none"


@dataclass(frozen=True, kw_only=True, repr=False)
class Model(Released):
    """A fitted model, which predicts and can be saved as a bundle. See `Released` for its content."""

    def predict(
        self,
        data: Any,
        nodes: Any = None,
        *,
        features: Sequence[str] | None = None,
        directed_graph: bool | None = None,
    ) -> Answered:
        """Answers about nodes of a graph.

        Guarantee: `answers` of the result says to whom an answer may be shown under the claims.

        Args:
            data: a PyG `Data` with the columns of x that the model was fitted on; labels are read by methods
                whose answers read the asked node's own record.
            nodes: positions or a mask, shape (num_nodes,); None asks about all.
            features: names of the columns, compared with the model's if it has names.
            directed_graph: whether edges are directed; otherwise reverse edges are added. None: as fitted.

        Raises:
            ValueError: other columns or classes, an unknown node, or a graph that the model cannot answer
                about; names what is wrong.
        """
        directed = self.directed_graph if directed_graph is None else directed_graph
        graph = self._graph(data, directed, features)
        idx, entry, method = positions(nodes, graph.num_nodes), self.entry, self.method
        self._check_rows(graph, idx)
        found = method.predict(entry, self._fitted, method.sees(graph), idx)
        logits = check_answer(entry, found, len(idx), graph.num_classes).astype(np.float64)
        if graph.task == "multilabel":
            shares, classes = 1 / (1 + np.exp(-logits)), (logits > 0).astype(np.uint8)
        else:
            shares = np.exp(logits - logits.max(1, keepdims=True))
            shares, classes = shares / shares.sum(1, keepdims=True), logits.argmax(1)
        named = bool(self.names.classes) and classes.ndim == 1
        return Answered(
            nodes=idx, classes=classes,
            names=tuple(self.names.classes[c] for c in classes) if named else (),
            probabilities=shares.astype(np.float32), answers=found.answers, note=found.note,
        )  # fmt: skip

    def save(self, folder: str | Path, *, key: str | Path | None = None) -> Path:
        """Write the model as a bundle: see docs/releasing.md.

        Guarantee: as `bundle.save`: files listed in the certificate are released under the claim; the owner's
        own files are kept apart.

        Args:
            folder: a new or empty folder.
            key: file of an Ed25519 private key (PEM) to sign with.

        Raises:
            ValueError: the folder holds something, or the key is none.
        """
        return save(self, Path(folder), key=None if key is None else Path(key))

    @property
    def reads_edges(self) -> bool:
        """Whether the method reads edges."""
        return self.method.uses_edges

    @property
    def _fitted(self) -> Fitted:
        return Fitted(state=self.state, kept=self.kept)

    def _graph(self, data: Any, directed: bool, features: Sequence[str] | None) -> Graph:
        facts, names = self.facts, self.names.features
        if features is not None and names and tuple(features) != names:
            wrong = [name for name in features if name not in names]
            missing = [name for name in names if name not in features]
            found = {"more": wrong, "missing": missing} if wrong or missing else "another order"
            fail("columns of x", "be those of the fit in their order", found)
        several = facts.task == "multilabel"
        graph = graph_of(
            data,
            name="data",
            num_classes=facts.num_classes,
            directed=directed,
            several=several,
        )
        remedy = "give the columns of the fit in their order"
        rule = f"be {facts.num_features}"
        require(
            graph.num_features == facts.num_features,
            "columns of x",
            rule,
            graph.num_features,
            remedy,
        )
        right = graph.num_classes == facts.num_classes
        require(right, "number of classes", f"be {facts.num_classes}", graph.num_classes)
        board = self.state.get("board")
        if board is not None:  # votes: a released row for each node that a list may name
            rule = f"be the {len(board)} of the fit, in their order"
            require(graph.num_nodes == len(board), "nodes of the graph", rule, graph.num_nodes)
        return graph

    def _check_rows(self, graph: Graph, asked: np.ndarray) -> None:
        """Compare each node's features with those of the fit's node whose kept row answers for it.

        Of a model that knows ids, a table leaves nodes empty that it does not ask about.

        Raises:
            ValueError: a node has other features, or there are more or fewer nodes.
        """
        wanted = self.kept.get(ROWS_FOR)
        if wanted is None:
            return
        remedy = "the model keeps noisy rows of the nodes of that graph alone, in their order"
        if wanted.ndim == 1:  # of bundles of earlier versions: one hash of all features
            same = features_hash(graph) == bytes(wanted.tolist()).hex()
            require(same, "data", "be the graph of the fit", "other features or nodes", remedy)
            return
        found, known = rows_for(graph).numpy(), wanted.numpy()
        same = found.shape == known.shape
        require(same, "nodes of the graph", f"be the {len(known)} of the fit", len(found), remedy)
        other = (found != known).any(axis=1)
        if self.names.ids:
            unused = np.setdiff1d(np.arange(len(found)), asked)
            other[unused[np.asarray(abs(graph.x[unused]).sum(axis=1)).reshape(-1) == 0]] = False
        if other.any():
            place = int(np.flatnonzero(other)[0])
            who = self.names.ids[place] if self.names.ids else place
            fail("data", "be the graph of the fit", f"other features of node {who}", remedy)
