"""Options of DP-GNN, and what follows from them: the sampler, the clipped parts, the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.core import user_code
from dpgnn.core.checks import at_least, fail, layers, one_of, positive, require
from dpgnn.core.config import later
from dpgnn.data.rows import RowNorm
from dpgnn.methods.shared.planning import DPSGDConfig

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry, SamplerSpec
    from dpgnn.models.network import Network
    from dpgnn.samplers.own_list import OwnList
    from dpgnn.samplers.published import Published
    from dpgnn.samplers.stable import Stable

    Sampler = OwnList | Published | Stable

Conv = Literal["gcn", "gin", "gat", "sage", "symmetric"]
SamplerName = Literal["auto", "published", "own_list", "stable"]
Thresholds = Literal["auto", "public", "percentile", "private-quantile"]
Parts = Literal["auto", "global", "group", "tensor"]
Counting = Literal["pld", "rdp", "theorem-1"]

# size at which the authors' code truncates subgraphs
REFERENCE_SUBGRAPH_SIZE = 100
# options of the built-in networks; a user's module has its own
NETWORK_OPTIONS = (
    "conv", "width", "encoder_layers", "decoder_layers", "activation", "skip", "num_heads", "head_width",
    "aggregate_once",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DPGNNConfig:
    """Options of DP-GNN; every value is public.

    Attributes:
        conv: gcn (mean over the node and its list), gin (sum, two-layer update), gat (dot-product
            attention), sage (own state and mean of the list, one matrix each), symmetric
            (D^-1/2 (A + I) D^-1/2).
        num_hops: message-passing depth r, 0 to 3; 0 is an MLP.
        width: units of every hidden layer.
        encoder_layers: layers before the first hop.
        decoder_layers: layers after the last hop, including the output layer; with 0, the last hop's update
            is the output layer.
        activation: relu, tanh or selu.
        skip: add the aggregate to each hop's update.
        num_heads, head_width: of gat.
        aggregate_once: average the features over each root's subgraph once, before training, and train an
            MLP on the root's own and averaged features; the same guarantee, much cheaper steps.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        projection: multiply the features by a fixed random matrix down to this many columns; the matrix is
            public and the same in every run. For comparison only: see docs/methods/dpgnn.md.
        symmetrize: add the reverse of each edge of a directed graph (once), for answers and before the
            published sampler; own lists (`own_list`, `stable`) are sampled from the arcs as stored.
        sampler: published, own_list or stable; auto is published in published mode and without privacy,
            own_list in sound mode.
        max_degree: K, the sampler's bound on how many roots read a node directly.
        max_out_degree: D of the stable sampler, how many nodes a root reads; empty takes max_degree.
        degree_bound: declared largest degree of the graph, for the unit node-bounded; never measured.
        max_list_size: own_list: truncate a root's list to this many ids, to save memory; empty keeps all.
        reference_code: published: follow the authors' code where it differs from the paper: reverse edges
            appended without deduplication, subgraphs truncated at 100 nodes, thresholds per tensor, one joint
            noise, orders up to 9.9. Its draws with replacement and its late stop are not followed.
        clipping: parts that are clipped separately: global (one norm), group (encoder, aggregation, decoder)
            or tensor; auto is group in published mode, tensor with reference_code, global in sound mode.
        thresholds: public (equal bounds that combine to clipping_norm), percentile (of private gradient norms
            at the start, published mode only) or private-quantile (chosen by a planned mechanism).
        quantile: target quantile of the gradient norms for percentile and private-quantile.
        quantile_epsilon: part of the budget that private-quantile spends on all parts together.
        noise: sound mode: joint (one deviation) or scaled (in proportion to each part's bound).
        counting: sound mode: pld (tight), rdp, or theorem-1 (fixed-size batches counted as in the paper, for
            comparison with the tight count).
        training: noisy gradient descent; in published mode the batch has exactly expected_batch_size
            roots (all with `full`) and clipping_norm is used with public thresholds only.
        selection: without privacy: best_validation or last; with privacy always the last step.
        module: `package.module:Class`, a user's torch.nn.Module in place of the built-in network; its forward
            maps (x, edge_index) of a root's tree, row 0 the root, to logits. See docs/own_network.md.
        module_options: arguments of the class; numbers of features and classes are filled in.
        module_given: hash of a module that was given to `fit` in memory; never written in a study.
    """

    conv: Conv = "gcn"
    num_hops: int = 1
    width: int = 256
    encoder_layers: int = 1
    decoder_layers: int = 1
    activation: Literal["relu", "tanh", "selu"] = "tanh"
    skip: bool = True
    num_heads: int = 10
    head_width: int = 25
    aggregate_once: bool = False
    row_norm: RowNorm = "none"
    projection: int | None = None
    symmetrize: bool = True
    sampler: SamplerName = "auto"
    max_degree: int = 7
    max_out_degree: int | None = None
    degree_bound: int | None = None
    max_list_size: int | None = None
    reference_code: bool = False
    clipping: Parts = "auto"
    thresholds: Thresholds = "auto"
    quantile: float = 0.75
    quantile_epsilon: float = 0.2
    noise: Literal["joint", "scaled"] = "joint"
    counting: Counting = "pld"
    training: DPSGDConfig = DPSGDConfig()
    selection: Literal["best_validation", "last"] = "best_validation"
    module: str = later("")
    module_options: Mapping[str, Any] | None = later(None)
    module_given: str = later("")

    def __post_init__(self) -> None:
        at_least("num_hops", self.num_hops, 0)
        require(self.num_hops <= 3, "num_hops", "be at most 3", self.num_hops)
        for name in ("width", "num_heads", "head_width"):
            at_least(name, getattr(self, name), 1)
        layers("encoder_layers", self.encoder_layers, 0)
        layers("decoder_layers", self.decoder_layers, 0 if self.num_hops else 1)
        at_least("max_degree", self.max_degree, 0)
        if self.projection is not None:
            at_least("projection", self.projection, 1)
        for name in ("max_out_degree", "degree_bound", "max_list_size"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 0)
        require(0 < self.quantile < 1, "quantile", "be in (0, 1)", self.quantile)
        positive("quantile_epsilon", self.quantile_epsilon)
        if self.aggregate_once:
            one_of("conv with aggregate_once", self.conv, ("gcn",))
            at_least("num_hops with aggregate_once", self.num_hops, 1)
        elif self.skip and self.num_hops:
            rule, why = "be false where {} is 0", "features, states and outputs differ in number"
            for name in ("encoder_layers", "decoder_layers"):
                require(getattr(self, name) > 0, "skip", rule.format(name), True, why)
        hidden = bool(self.max_list_size is not None) and self.sampler in ("published", "stable")
        require(not hidden, "max_list_size", "be empty for this sampler", self.max_list_size)
        self._check_module()

    def _check_module(self) -> None:
        """A module replaces the built-in network, whose options are then an error."""
        if not self.module:
            for name in ("module_options", "module_given"):
                require(not getattr(self, name), name, "stand beside `module`", getattr(self, name))
            return
        if not self.module_given:
            user_code.check_name(self.module)
        for field in fields(self):
            if field.name in NETWORK_OPTIONS and field.default is not MISSING:
                value = getattr(self, field.name)
                rule = "be left out with `module`"
                remedy = "it is an option of the built-in networks; state the module's own in module_options"
                require(value == field.default, field.name, rule, value, remedy)
        require(
            self.clipping in ("auto", "global"),
            "clipping",
            "be global with `module`",
            self.clipping,
        )


def check_entry(entry: Entry, path: str) -> None:
    """Refuse options that do not go together with the mode, unit or relation.

    Args:
        entry: the entry.
        path: where it stands in the study, for the message.

    Raises:
        ValueError: names the option, the rule and the remedy.
    """
    config: DPGNNConfig = entry.options
    if config.module:
        rule, remedy = "be sound or nonprivate with `module`", "the paper has no such network"
        require(entry.mode != "published", f"mode of {path}", rule, entry.mode, remedy)
        require(
            bool(config.module_given) or user_code.exists(config.module), f"{path}.module",
            "name a module that Python finds", config.module,
            "it looks in the working folder last; `PYTHONPATH` names other folders",
        )  # fmt: skip
    if entry.mode == "sound":
        _check_sound(entry, config, path)
    else:
        where, bounded = f"privacy_unit of {path}", entry.privacy_unit == "node-bounded"
        require(not bounded, where, "be node-record or node-features", entry.privacy_unit)


def _check_sound(entry: Entry, config: DPGNNConfig, path: str) -> None:
    """Refuse options in sound mode that no proof covers."""
    if config.sampler == "published" and entry.privacy_unit != "node-features":
        fail(
            f"sampler of {path}", "be own_list or stable in sound mode", "published",
            "it keeps its promise for the unit node-features only",
        )  # fmt: skip
    if config.thresholds == "percentile":
        fail(
            f"{path}.thresholds", "be public or private-quantile in sound mode", "percentile",
            "percentiles of private gradients are not counted by any accountant",
        )  # fmt: skip
    if config.reference_code:
        fail(f"{path}.reference_code", "be false in sound mode", True, "use mode: published")
    if config.counting == "theorem-1" and entry.relation == "add-remove":
        fail(
            f"relation of {path}", "be null-one or replace-one with counting: theorem-1",
            "add-remove", "fixed-size batches need the same number of roots in both worlds",
        )  # fmt: skip
    require(
        entry.privacy_unit != "node-bounded" or config.degree_bound is not None, f"{path}.degree_bound",
        "be declared for the unit node-bounded", config.degree_bound,
    )  # fmt: skip


def sampler_name(entry: Entry) -> str:
    """The sampler of an entry, with auto resolved."""
    config: DPGNNConfig = entry.options
    if config.sampler != "auto":
        return config.sampler
    return "own_list" if entry.mode == "sound" else "published"


def sampler_of(entry: Entry) -> Sampler:
    """The configured sampler, whose promise says how many roots change."""
    from dpgnn.samplers.own_list import OwnList
    from dpgnn.samplers.published import Published
    from dpgnn.samplers.stable import Stable

    config: DPGNNConfig = entry.options
    name, hops, degree = sampler_name(entry), config.num_hops, config.max_degree
    if name == "own_list":
        return OwnList(
            max_degree=degree, num_hops=hops, degree_bound=config.degree_bound,
            max_list_size=config.max_list_size,
        )  # fmt: skip
    if name == "stable":
        out = degree if config.max_out_degree is None else config.max_out_degree
        return Stable(
            max_in_degree=degree, max_out_degree=out, num_hops=hops,
            degree_bound=config.degree_bound,
        )  # fmt: skip
    if config.reference_code:
        return Published(
            max_degree=degree, num_hops=hops, coins="list", append_reverse=True,
            max_subgraph_size=REFERENCE_SUBGRAPH_SIZE,
        )  # fmt: skip
    return Published(max_degree=degree, num_hops=hops)


def sampler_spec(entry: Entry) -> SamplerSpec | None:
    """The prepared sample of an entry; entries that differ only in training share one."""
    from dpgnn.methods.base import SamplerSpec

    config: DPGNNConfig = entry.options
    if config.num_hops == 0:
        return None
    params = {
        key: value for key, value in asdict(sampler_of(entry)).items() if key != "degree_bound"
    }
    symmetrize = config.symmetrize and not config.reference_code
    return SamplerSpec(name=sampler_name(entry), params=params | {"symmetrize": symmetrize})


def sampler_from_spec(name: str, params: Mapping[str, Any]) -> Sampler:
    """The sampler of a spec; `symmetrize` is applied to the arcs elsewhere."""
    from dpgnn.samplers.own_list import OwnList
    from dpgnn.samplers.published import Published
    from dpgnn.samplers.stable import Stable

    kinds: dict[str, type[Any]] = {"own_list": OwnList, "published": Published, "stable": Stable}
    kind = kinds[one_of("sampler", name, kinds)]
    known = {field.name for field in fields(kind)}
    sampler: Sampler = kind(**{key: value for key, value in params.items() if key in known})
    return sampler


def clipped_parts(entry: Entry) -> Literal["global", "group", "tensor"]:
    """The parts of the gradient that are clipped separately, with auto resolved."""
    config: DPGNNConfig = entry.options
    if config.clipping != "auto":
        return config.clipping
    if entry.mode == "sound":
        return "global"
    return "tensor" if config.reference_code else "group"


def threshold_rule(entry: Entry) -> Literal["public", "percentile", "private-quantile"]:
    """How thresholds are found, with auto resolved."""
    config: DPGNNConfig = entry.options
    if config.thresholds != "auto":
        return config.thresholds
    return "public" if entry.mode == "sound" else "percentile"


def part_names(entry: Entry) -> tuple[str, ...]:
    """Names of the clipped parts, as `Clipping.norms` holds them; they depend on the layers alone."""
    config: DPGNNConfig = entry.options
    kind = clipped_parts(entry)
    if kind == "global":
        return ("all",)
    network = network_of(config, num_features=1, num_classes=2)
    if kind == "tensor":
        return tuple(network.shapes)
    return tuple(dict.fromkeys(network.groups.values()))


def network_of(
    config: DPGNNConfig, *, num_features: int, num_classes: int, task: Any = "multiclass"
) -> Network:
    """Encoder, r hops and decoder as the engine's network.

    With `aggregate_once` the hops are precomputed: an MLP on twice the features.
    """
    from dpgnn.models.network import Network, NetworkConfig

    if config.module:
        from dpgnn.models.modules import ModuleConfig, module_network

        asked = ModuleConfig(
            num_features=config.projection or num_features, num_outputs=num_classes,
            num_hops=config.num_hops, task=task,
        )  # fmt: skip
        return module_network(
            asked, config.module, config.module_options or {}, config.module_given
        )
    once = config.aggregate_once
    columns = config.projection or num_features
    return Network(
        NetworkConfig(
            num_features=2 * columns if once else columns,
            num_outputs=num_classes,
            width=config.width,
            encoder_layers=config.encoder_layers,
            num_hops=0 if once else config.num_hops,
            decoder_layers=config.decoder_layers,
            conv=config.conv,
            skip=config.skip and config.num_hops > 0 and not once,
            activation=config.activation,
            task=task,
            num_heads=config.num_heads,
            head_width=config.head_width,
        )
    )
