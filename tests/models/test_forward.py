import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GCNConv, GINConv, SAGEConv

from dpgnn.models import forward
from dpgnn.models.forward import evaluate, full_graph, full_graph_logits, per_root_loss
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import build_trees
from dpgnn.training.chunks import chunk_layout

N, F, C = 12, 5, 3


@pytest.fixture
def graph():
    rng = np.random.default_rng(5)
    matrix = rng.random((N, N)) < 0.25
    matrix |= matrix.T
    np.fill_diagonal(matrix, False)
    return rng.standard_normal((N, F)).astype(np.float32), np.stack(np.nonzero(matrix))


def network_of(conv, num_hops=1, **changes):
    values = {"num_features": F, "num_outputs": C, "width": 4, "activation": "tanh"} | changes
    return Network(NetworkConfig(conv=conv, num_hops=num_hops, **values))


def parameters_of(network):
    rng = np.random.default_rng(1)
    return network.views(torch.from_numpy(rng.standard_normal(network.num_parameters)).float())


def bare(conv):
    """One hop and nothing else, comparable with a layer of torch_geometric."""
    return network_of(conv, encoder_layers=0, decoder_layers=0)


def test_the_symmetric_convolution_is_that_of_torch_geometric(graph):
    x, edges = graph
    network = bare("symmetric")
    p = parameters_of(network)
    layer = GCNConv(F, C)
    layer.lin.weight.data = p["hop.0.update.weight"].T.contiguous()
    layer.bias.data = p["hop.0.update.bias"]
    expected = layer(torch.from_numpy(x), torch.from_numpy(edges))
    torch.testing.assert_close(full_graph_logits(network, p, x, edges), expected.detach())


def test_sage_is_that_of_torch_geometric(graph):
    x, edges = graph
    network = bare("sage")
    p = parameters_of(network)
    layer = SAGEConv(F, C)
    layer.lin_r.weight.data = p["hop.0.own.weight"].T.contiguous()
    layer.lin_l.weight.data = p["hop.0.neighbours.weight"].T.contiguous()
    layer.lin_l.bias.data = p["hop.0.own.bias"] + p["hop.0.neighbours.bias"]
    expected = layer(torch.from_numpy(x), torch.from_numpy(edges))
    torch.testing.assert_close(full_graph_logits(network, p, x, edges), expected.detach())


def test_gin_is_that_of_torch_geometric(graph):
    x, edges = graph
    network = bare("gin")
    p = parameters_of(network)

    def update(a):
        hidden = torch.tanh(a @ p["hop.0.first.weight"] + p["hop.0.first.bias"])
        return hidden @ p["hop.0.second.weight"] + p["hop.0.second.bias"]

    expected = GINConv(update)(torch.from_numpy(x), torch.from_numpy(edges))
    torch.testing.assert_close(full_graph_logits(network, p, x, edges), expected)


def test_attention_weights_sum_to_one_and_follow_the_scores(graph):
    x, edges = graph
    network = network_of("gat", encoder_layers=0, decoder_layers=0, num_heads=2, head_width=3)
    p = parameters_of(network)
    logits = full_graph_logits(network, p, x, edges)
    node = int(edges[1, 0])
    reads = np.append(node, edges[0, edges[1] == node])
    rows = torch.from_numpy(x[reads])
    mixed = []
    for head in (slice(0, 3), slice(3, 6)):
        q = rows[:1] @ p["hop.0.query.weight"][:, head] + p["hop.0.query.bias"][head]
        k = rows @ p["hop.0.key.weight"][:, head] + p["hop.0.key.bias"][head]
        v = rows @ p["hop.0.value.weight"][:, head] + p["hop.0.value.bias"][head]
        mixed.append(torch.softmax(q @ k.T / 3**0.5, dim=1) @ v)
    expected = torch.cat(mixed, dim=1) @ p["hop.0.update.weight"] + p["hop.0.update.bias"]
    torch.testing.assert_close(logits[node : node + 1], expected)


@pytest.mark.parametrize("conv", ["gcn", "gin", "sage", "gat", "symmetric"])
@pytest.mark.parametrize("num_hops", [1, 2, 3])
def test_a_root_with_its_whole_neighbourhood_gets_the_full_graph_logits(graph, conv, num_hops):
    x, edges = graph
    network = network_of(conv, num_hops, skip=True, num_heads=2, head_width=2)
    p = parameters_of(network)
    # every root holds the whole graph, itself first; the tree keeps what lies within r hops
    order = [np.roll(np.arange(N), -root) for root in range(N)]
    place = [np.argsort(nodes) for nodes in order]
    trees = build_trees(
        node_ptr=np.arange(N + 1) * N, node=np.concatenate(order),
        edge_ptr=np.arange(N + 1) * edges.shape[1],
        edge_source=np.concatenate([rank[edges[0]] for rank in place]),
        edge_target=np.concatenate([rank[edges[1]] for rank in place]),
        y=np.zeros(N, np.int64), num_hops=num_hops, conv=conv,
    )  # fmt: skip
    layout = chunk_layout(trees, np.arange(N))
    rows = torch.from_numpy(x)[layout.node]
    logits = evaluate(network, p, layout, rows)
    torch.testing.assert_close(logits, full_graph_logits(network, p, x, edges))


def test_what_no_weight_moves_is_made_once_and_gives_the_same_bits(graph, monkeypatch):
    x, edges = graph
    network = network_of("gcn", encoder_layers=0, num_hops=2)
    calls, real = [], forward.GraphLayout.aggregate

    def aggregate(self, hop, h):
        calls.append(hop)
        return real(self, hop, h)

    monkeypatch.setattr(forward.GraphLayout, "aggregate", aggregate)
    logits, layout = full_graph(network, x, edges), forward.graph_layout(edges, N, "gcn")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        flat = torch.from_numpy(rng.standard_normal(network.num_parameters)).float()
        named = network.named(flat)
        expected = evaluate(network, named, layout, torch.from_numpy(x))
        calls.clear()
        assert torch.equal(logits(named), expected)
        assert calls == ([1, 2] if seed == 0 else [2])


def test_sparse_and_dense_features_give_the_same_logits(graph):
    x, edges = graph
    x = np.where(np.abs(x) > 0.8, x, 0.0).astype(np.float32)
    for conv, encoder_layers in (("gcn", 1), ("symmetric", 0)):
        network = network_of(conv, encoder_layers=encoder_layers)
        p = parameters_of(network)
        dense = full_graph_logits(network, p, x, edges)
        torch.testing.assert_close(full_graph_logits(network, p, sp.csr_array(x), edges), dense)


def test_an_mlp_reads_no_edges(graph):
    x, edges = graph
    network = network_of("gcn", num_hops=0)
    p = parameters_of(network)
    torch.testing.assert_close(
        full_graph_logits(network, p, x, None), full_graph_logits(network, p, x, edges)
    )


def test_inference_with_hops_needs_edges_and_a_graph_convolution(graph):
    x, _ = graph
    network = network_of("gcn")
    with pytest.raises(ValueError, match="edge_index must be given"):
        full_graph_logits(network, parameters_of(network), x, None)
    network = network_of("weighted")
    with pytest.raises(ValueError, match="conv must be a graph convolution"):
        full_graph_logits(network, parameters_of(network), x, None)


def test_the_loss_of_each_root_is_cross_entropy_or_mean_binary_cross_entropy():
    logits = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])
    loss = per_root_loss(network_of("gcn"), logits, torch.tensor([2, 0]))
    expected = torch.logsumexp(logits, dim=1) - torch.tensor([2.0, 1.0])
    torch.testing.assert_close(loss, expected)
    multilabel = network_of("gcn", task="multilabel")
    loss = per_root_loss(multilabel, torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 1.0]]))
    torch.testing.assert_close(loss, torch.full((1,), np.log(2.0), dtype=torch.float32))
