import numpy as np
import pytest
import torch

from dpgnn.models.network import Aggregate, Linear, Network, NetworkConfig


def config(**changes) -> NetworkConfig:
    values = {"num_features": 5, "num_outputs": 3, "width": 4} | changes
    return NetworkConfig(**values)


def test_the_flat_vector_and_the_named_tensors_are_inverse_to_each_other():
    network = Network(config(encoder_layers=2, num_hops=2, decoder_layers=2, conv="gin"))
    flat = torch.arange(float(network.num_parameters))
    views = network.views(flat)
    assert torch.equal(network.flatten(views), flat)
    assert [tuple(view.shape) for view in views.values()] == list(network.shapes.values())


def test_named_gives_copies_that_later_steps_do_not_change():
    network = Network(config(num_hops=0))
    flat = torch.zeros(network.num_parameters, dtype=torch.float64)
    named = network.named(flat)
    flat += 1
    assert all(bool((value == 0).all()) for value in named.values())
    assert {value.dtype for value in named.values()} == {torch.float32}


def test_every_parameter_belongs_to_its_group():
    network = Network(config(conv="sage"))
    assert network.groups == {
        "encoder.0.weight": "encoder", "encoder.0.bias": "encoder",
        "hop.0.own.weight": "aggregation", "hop.0.own.bias": "aggregation",
        "hop.0.neighbours.weight": "aggregation", "hop.0.neighbours.bias": "aggregation",
        "decoder.0.weight": "decoder", "decoder.0.bias": "decoder",
    }  # fmt: skip


def test_the_published_size_of_the_one_layer_network_is_met():
    network = Network(config(num_features=128, num_outputs=40, width=256))
    assert network.num_parameters == 109_096


def test_a_network_without_decoder_ends_in_its_last_hop_without_activation():
    network = Network(config(encoder_layers=0, decoder_layers=0, num_hops=2, conv="symmetric"))
    last = network.operations[-1]
    assert isinstance(last, Linear)
    assert last.num_out == 3
    assert network.shapes["hop.0.update.weight"] == (5, 4)


def test_weighted_rows_are_mixed_after_the_decoder():
    network = Network(config(conv="weighted", bias=False))
    assert isinstance(network.operations[-1], Aggregate)
    assert list(network.shapes) == ["encoder.0.weight", "decoder.0.weight"]


@pytest.mark.parametrize("name", ["batch", "batch_norm", "pair_norm", "graph_norm"])
def test_layers_that_mix_roots_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"normalization must not mix roots, got '{name}'"):
        config(normalization=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv": "gnc"}, "unknown conv 'gnc'; known: gat"),
        ({"activation": "gelu"}, "unknown activation"),
        ({"num_hops": 0, "decoder_layers": 0}, "decoder_layers must be >= 1"),
        ({"conv": "weighted", "num_hops": 2}, "num_hops must be 0 or 1"),
        ({"encoder_layers": 0, "skip": True}, "skip must be false"),
        ({"width": 0}, "width must be >= 1"),
        ({"normalization": "layer"}, "normalization must be 'none'"),
    ],
)
def test_impossible_configurations_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_initial_weights_are_truncated_lecun_normal_and_biases_zero():
    network = Network(config(num_features=400, width=500, num_hops=0))
    flat = network.initial(rng=np.random.default_rng(0))
    weight = network.views(flat)["encoder.0.weight"]
    # 200,000 draws: the sample deviation is within 1 % of sqrt(1/400) with certainty for a test
    assert float(weight.std()) == pytest.approx(0.05, rel=0.01)
    assert float(weight.abs().max()) <= 2 * 0.05 / 0.8796
    assert float(network.views(flat)["encoder.0.bias"].abs().max()) == 0.0


def test_the_same_stream_gives_the_same_weights_in_every_dtype():
    network = Network(config())
    narrow = network.initial(rng=np.random.default_rng(3))
    wide = network.initial(rng=np.random.default_rng(3), dtype=torch.float64)
    assert torch.equal(narrow, wide.float())


def test_named_tensors_of_wrong_shape_are_refused():
    network = Network(config(num_hops=0))
    views = network.views(torch.zeros(network.num_parameters))
    with pytest.raises(ValueError, match=r"parameter encoder\.0\.bias must have shape"):
        network.flatten(views | {"encoder.0.bias": torch.zeros(9)})
    with pytest.raises(ValueError, match="flat must have shape"):
        network.views(torch.zeros(3))
