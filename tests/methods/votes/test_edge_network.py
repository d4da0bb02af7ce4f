"""The edge level's small networks: gradients against automatic ones, and what is shared between arcs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from dpgnn.methods.votes.edge_fit import messages_of
from dpgnn.methods.votes.edge_head import apply_head
from dpgnn.methods.votes.edge_network import Networks, Rows, train
from dpgnn.methods.votes.edge_options import EdgeConfig, HeadConfig
from dpgnn.methods.votes.edge_rounds import _different, _kinds, second_sums
from dpgnn.models.masks import Masks
from dpgnn.training.options import AdamConfig

FOLDS, CLASSES, WIDTH, COUNT = 3, 4, 5, 12


def rows_of(*, sparse: bool, blocks: int) -> Rows:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((COUNT, WIDTH)) * (rng.random((COUNT, WIDTH)) < 0.6)).astype("float32")
    fold = np.arange(COUNT) % FOLDS
    return Rows(
        x=sp.csr_array(x) if sparse else torch.from_numpy(x),
        direct=torch.from_numpy(rng.standard_normal((blocks, COUNT, CLASSES)).astype("float32")),
        y=torch.from_numpy(rng.integers(CLASSES, size=COUNT)),
        seen=torch.from_numpy(fold[:, None] != np.arange(FOLDS)).float(),
    )


def networks_of(widths: tuple[int, ...], blocks: int) -> Networks:
    made = Networks(widths, (0.3, 0.5), FOLDS, blocks)
    made.start([torch.Generator().manual_seed(k) for k in range(FOLDS)])
    made.flat += 0.1 * torch.randn(len(made.flat), generator=torch.Generator().manual_seed(9))
    return made


def loss_of(networks: Networks, flat: torch.Tensor, rows: Rows, masks: Masks) -> torch.Tensor:
    """The same loss written with torch's own operations, network by network."""
    named = networks._views(flat)
    x = torch.from_numpy(rows.x.toarray()) if sp.issparse(rows.x) else rows.x
    if sp.issparse(rows.x):
        kept = masks.draw((rows.x.nnz,), 0.3).numpy()
        csr = (kept, rows.x.indices, rows.x.indptr)
        x = x * torch.from_numpy(sp.csr_array(csr, shape=rows.x.shape).toarray())
    else:
        x = x * masks.draw(tuple(x.shape), 0.3)
    found = (x @ named["layer.0.weight"] + named["layer.0.bias"]).unflatten(1, (FOLDS, -1))
    for layer in range(1, networks.num_layers):
        hidden = torch.relu(found)
        hidden = hidden * masks.draw(tuple(hidden.shape), 0.5)
        bias = named[f"layer.{layer}.bias"].unflatten(0, (FOLDS, -1))
        found = torch.einsum("nkh,khc->nkc", hidden, named[f"layer.{layer}.weight"]) + bias
    for weight, block in zip(named["direct.weight"], rows.direct):
        found = found + weight * block[:, None]
    losses = [
        F.cross_entropy(found[rows.seen[:, k] > 0, k], rows.y[rows.seen[:, k] > 0])
        for k in range(FOLDS)
    ]
    return torch.stack(losses).sum()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("hidden", "blocks"), [((), 0), ((6,), 2), ((6, 3), 1)])
def test_gradients_are_those_of_the_loss(
    sparse: bool, hidden: tuple[int, ...], blocks: int
) -> None:
    networks, rows = (
        networks_of((WIDTH, *hidden, CLASSES), blocks),
        rows_of(sparse=sparse, blocks=blocks),
    )
    gradient, loss = networks.gradient(rows, Masks(torch.Generator().manual_seed(5)))
    flat = networks.flat.clone().requires_grad_()
    expected = loss_of(networks, flat, rows, Masks(torch.Generator().manual_seed(5)))
    expected.backward()
    assert flat.grad is not None
    np.testing.assert_allclose(gradient.numpy(), flat.grad.numpy(), atol=2e-6)
    assert loss == pytest.approx(float(expected.detach()) / FOLDS, rel=1e-5)


def test_a_network_learns_nothing_of_a_row_it_may_not_see() -> None:
    rows = rows_of(sparse=False, blocks=0)
    y = rows.y.clone()
    y[0] = (y[0] + 1) % CLASSES
    states = []
    for part in (rows, dataclasses.replace(rows, y=y)):
        networks = networks_of((WIDTH, 6, CLASSES), 0)
        masks = Masks(torch.Generator().manual_seed(1))
        train(networks, [part], AdamConfig(num_epochs=5), masks=masks, progress=Quiet())
        states.append(networks.state())
    for name in ("layer.1.weight", "layer.1.bias"):
        first, second = (state[name].reshape(FOLDS, -1) for state in states)
        assert torch.equal(first[0], second[0]), "row 0 is hidden from network 0"
        assert not torch.equal(first[1], second[1])


class Quiet:
    def update(self, step: int) -> None:
        """Show nothing."""


def test_a_loss_that_is_not_finite_is_named() -> None:
    networks = networks_of((WIDTH, CLASSES), 0)
    rows = dataclasses.replace(
        rows_of(sparse=False, blocks=0), x=torch.full((COUNT, WIDTH), torch.nan)
    )
    masks = Masks(torch.Generator())
    with pytest.raises(
        ValueError, match="training loss must be finite, got nan at step 1; lower lr"
    ):
        train(networks, [rows], AdamConfig(num_epochs=2), masks=masks, progress=Quiet())


def test_a_heads_logits_are_its_networks_and_do_not_depend_on_other_rows() -> None:
    networks = Networks((3 * CLASSES, 6, CLASSES), (0.1, 0.5), 1, 2)
    networks.start([torch.Generator().manual_seed(2)])
    networks.named["direct.weight"].copy_(torch.tensor([0.7, -0.2]))
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2500, 3 * CLASSES))
    mean, variance = rng.standard_normal(3 * CLASSES), rng.random(3 * CLASSES) + 0.5
    fitted = {"running_mean": torch.from_numpy(mean), "running_var": torch.from_numpy(variance)}
    found = apply_head(networks.state() | fitted, rows, CLASSES)
    expected = networks.logits(torch.from_numpy((rows - mean) / np.sqrt(variance)).float())[
        :, 0
    ].numpy()
    expected = expected + 0.7 * rows[:, :CLASSES] - 0.2 * rows[:, CLASSES : 2 * CLASSES]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for part in (slice(7, 8), slice(3, 900, 2)):
        alone = apply_head(networks.state() | fitted, rows[part], CLASSES)
        assert alone.tobytes() == found[part].tobytes()


def test_one_message_serves_the_receivers_of_a_kind() -> None:
    rng = np.random.default_rng(4)
    dense = np.triu(rng.random((30, 30)) < 0.3, 1)
    adjacency = sp.csr_array((dense | dense.T).astype(np.float64))
    labelled = rng.random(30) < 0.6
    votes = np.where(
        labelled[:, None], np.eye(3)[rng.integers(3, size=30)], rng.random((30, 3)) / 3
    )
    released, asked = rng.standard_normal((30, 3)), []

    def messages(senders: np.ndarray, read: np.ndarray) -> np.ndarray:
        asked.append(len(senders))
        return np.tanh(read + senders[:, None]) / 2

    found = second_sums(adjacency, votes, labelled, released, messages)
    expected = adjacency @ (votes * labelled[:, None])
    unlabelled = np.flatnonzero(~labelled)
    for u in unlabelled:
        for v in np.flatnonzero(adjacency[[u]].toarray()[0]):
            expected[v] += np.tanh(released[u] - votes[v] + u) / 2
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert sum(asked) < adjacency[unlabelled].nnz
    # labelled nodes of other votes than their kind's share nothing
    votes[np.flatnonzero(labelled)[0]] *= 0.5
    kind = _kinds(votes, labelled)
    assert (kind[~labelled] == -1).all()
    for number in range(3):
        members = votes[kind == number]
        assert (members == members[:1]).all()
    chosen, of_arc = _different(np.array([2, 2, 2, 3, 3]), np.array([1, -1, 1, 1, 1]))
    assert chosen.tolist() == [0, 1, 3]
    assert of_arc.tolist() == [0, 1, 0, 2, 2]


def test_a_message_does_not_depend_on_other_messages_to_the_last_bit() -> None:
    config, rng = EdgeConfig(head=HeadConfig(hidden=6)), np.random.default_rng(5)
    networks = Networks((3 * CLASSES, 6, CLASSES), (0.1, 0.5), 1, 2)
    networks.start([torch.Generator().manual_seed(2)])
    fitted = {name: torch.ones(3 * CLASSES).double() for name in ("running_mean", "running_var")}
    scores = np.log(rng.dirichlet(np.ones(CLASSES), size=700))
    messages = messages_of(config, networks.state() | fitted, scores, 1.3)
    senders, read = rng.integers(700, size=3000), 4 * rng.standard_normal((3000, CLASSES))
    whole = messages(senders, read)
    for part in (slice(11, 12), slice(0, 2), slice(5, 2500, 3)):
        assert messages(senders[part], read[part]).tobytes() == whole[part].tobytes()
