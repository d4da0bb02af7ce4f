"""A user's torch module as a network: tensors by name, and logits.

Its forward is `(x, edge_index) -> logits`: x has a row for each node of one root's tree, row 0 is the root,
messages go from edge_index[0] to edge_index[1]. It returns a row for each node, of which row 0 is used, or
only the root's row.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from dpgnn.core import user_code
from dpgnn.core.checks import at_least, fail, one_line, one_of, require
from dpgnn.data.graph import TASKS, Task
from dpgnn.models.network import Network

if TYPE_CHECKING:
    from dpgnn.models.network import Linear

# modules given in memory, by the hash in their entries
_GIVEN: dict[str, nn.Module] = {}
PLAIN = (int, float, str, bool, type(None))
REMEDY = (
    "forward takes (x, edge_index) of one tree, row 0 its root, and returns a row of logits a node"
)


@dataclass(frozen=True, kw_only=True)
class ModuleConfig:
    """Requirements on a module.

    Attributes:
        num_features: columns of x.
        num_outputs: classes or labels.
        num_hops: depth of the trees.
        task: multiclass or multilabel.
    """

    num_features: int
    num_outputs: int
    num_hops: int
    task: Task = "multiclass"

    def __post_init__(self) -> None:
        at_least("num_features", self.num_features, 1)
        at_least("num_outputs", self.num_outputs, 1)
        at_least("num_hops", self.num_hops, 0)
        one_of("task", self.task, TASKS)


class ModuleNetwork(Network):
    """A module with its trained tensors in the order of `named_parameters`; frozen ones are unchanged.

    Attributes:
        module: a copy, which no training changes.
        shapes: of the trained tensors.
    """

    def __init__(self, config: ModuleConfig, module: nn.Module, made_by: Any = None) -> None:
        check_module(module, type(module).__name__)
        # the base class consists of operations; a module has none
        self.config = config  # type: ignore[assignment]
        self.operations = []
        self.module, self._made_by = module, made_by
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._shapes = {name: tuple(value.shape) for name, value in trained.items()}
        # as they are before anything private is read: a forward may write into the module's own
        known = {id(value) for value in trained.values()}
        self._rest: dict[str, Tensor] = {}
        for name, value in module.state_dict(keep_vars=True).items():
            if id(value) not in known:  # a shared tensor has one name
                known.add(id(value))
                self._rest[name] = value.detach().clone()
        self._copied: tuple[Any, dict[str, Tensor]] = (None, {})

    @property
    def name(self) -> str:
        """The class of the module."""
        return type(self.module).__name__

    @cached_property
    def linears(self) -> tuple[Linear, ...]:
        """None: the linear layers of a module are not known beforehand."""
        return ()

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every trained tensor, by name."""
        return self._shapes

    @cached_property
    def groups(self) -> dict[str, str]:
        """All tensors are one group."""
        return dict.fromkeys(self.shapes, "module")

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """A module computes on every row of a tree."""
        return (0,)

    def initial(self, *, rng: np.random.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """The module's own initial weights: as given, or as its class draws them from `rng`.

        Args:
            rng: the stream `weights`; not read if the module was given in memory.
            dtype: of the returned vector.
        """
        module = self.module if self._made_by is None else self._made_by(rng)
        named = dict(module.named_parameters())
        return torch.cat([named[name].detach().reshape(-1) for name in self.shapes]).to(dtype)

    def rest(self) -> dict[str, Tensor]:
        """Frozen tensors and buffers as the module came, which are public and released with the weights."""
        return {name: value.clone() for name, value in self._rest.items()}

    def answer(self, state: Mapping[str, Tensor], x: Tensor, edge_index: Tensor) -> Tensor:
        """The output of the module in evaluation mode.

        Guarantee: forward gets copies; nothing that it writes stays in weights, released tensors or features.

        Args:
            state: trained tensors by name; others stay the module's own.
            x: shape (num_rows, num_features).
            edge_index: int64, shape (2, num_edges).

        Raises:
            ValueError: forward fails, or returns no tensor; names the module.
        """
        self.module.eval()
        with torch.no_grad():
            if self._copied[0] is not state:  # once for all trees of a question
                whole = {**self._rest, **state}
                self._copied = state, {name: value.clone() for name, value in whole.items()}
            return call(self.module, self._copied[1], x.clone(), edge_index, self.name)

    def gives_rows(self, size: int, out: Tensor) -> bool:
        """Whether forward returned a row for each of `size` nodes, not only the root's.

        Raises:
            ValueError: it returned something else; names module, rule and shape.
        """
        classes = self.config.num_outputs
        if tuple(out.shape) == (size, classes) and size > 1:
            return True
        require(
            tuple(out.shape) in ((classes,), (1, classes)), f"what {self.name}.forward returns",
            f"have shape ({size}, {classes}) for a tree of {size} nodes, or ({classes},)",
            tuple(out.shape), REMEDY,
        )  # fmt: skip
        return False


def call(
    module: nn.Module, state: dict[str, Tensor], x: Tensor, edge_index: Tensor, name: str
) -> Tensor:
    """The module's forward with these tensors in place of its own.

    Raises:
        ValueError: forward fails, or returns no tensor; names the module.
    """
    try:
        out = functional_call(module, state, (x, edge_index))
    except Exception as error:
        if isinstance(error, Stop):
            raise
        where = f"{name}.forward" + _layer_of(error, module)
        size = f"{x.shape[0]} node{'s' if x.shape[0] != 1 else ''} and {edge_index.shape[1]} edges"
        why = f"{type(error).__name__}: {one_line(error)}"
        fail(where, f"accept a tree of {size} with {x.shape[1]} features", why, REMEDY)
    if not isinstance(out, Tensor):
        fail(f"what {name}.forward returns", "be a tensor of logits", type(out).__name__, REMEDY)
    return out


class Stop(Exception):
    """An exception of an observed forward that must not be replaced by a message."""


def _layer_of(error: BaseException, module: nn.Module) -> str:
    """` at NAME (CLASS)` of the innermost submodule whose forward raised."""
    names = {id(part): path for path, part in module.named_modules() if path}
    found, trace = "", error.__traceback__
    while trace is not None:
        part = trace.tb_frame.f_locals.get("self")
        if isinstance(part, nn.Module) and id(part) in names:
            found = f" at {names[id(part)]} ({type(part).__name__})"
        trace = trace.tb_next
    return found


def check_module(module: Any, name: str = "module") -> None:
    """Check a module without calling it.

    Raises:
        ValueError: it is not a module, has no trained parameter, or has a lazy or complex one or one off the
            CPU.
    """
    if not isinstance(module, nn.Module):
        fail("module", "be a torch.nn.Module", type(module).__name__)
    for path, value in [*module.named_parameters(), *module.named_buffers()]:
        if nn.parameter.is_lazy(value):
            fail(f"{name}: {path}", "have a shape", "a lazy one", "state the input width")
        where = f"{name}: {path}"
        require(value.device.type == "cpu", where, "be on the CPU", str(value.device),
                "hand the module over on the CPU; `device` says where it is trained")  # fmt: skip
    trained = [(path, p) for path, p in module.named_parameters() if p.requires_grad]
    require(bool(trained), name, "have parameters to train", "none")
    for path, value in trained:
        require(value.dtype in (torch.float32, torch.float64), f"{name}: {path}",
                "be float32", str(value.dtype))  # fmt: skip
        require(bool(value.isfinite().all()), f"{name}: {path}", "be finite", "a value that is not")


def given(module: nn.Module) -> str:
    """Keep a copy of a module in this process under its hash.

    Returns:
        sha256 of class, tensors, printed form and plain attributes.
    """
    check_module(module, type(module).__name__)
    kept = copy.deepcopy(module)
    content = hashlib.sha256(f"{name_of(module)} {module!r}".encode())
    for path, part in kept.named_modules():
        plain = {k: v for k, v in vars(part).items() if _is_plain(v) and k != "training"}
        content.update(f" {path} {sorted(plain.items())!r}".encode())
    for path, value in kept.state_dict().items():
        content.update(f" {path} {value.dtype} {tuple(value.shape)} ".encode())
        content.update(value.detach().contiguous().cpu().numpy().tobytes())
    found = content.hexdigest()
    _GIVEN[found] = kept
    return found


def _is_plain(value: Any) -> bool:
    """Whether a value is printed alike in every process."""
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in value)
    return isinstance(value, PLAIN)


def name_of(module: nn.Module) -> str:
    """`package.module:Class` of a module."""
    return f"{type(module).__module__}:{type(module).__qualname__}"


def stand_in(sha256: str, module: nn.Module) -> None:
    """Use a module in place of one that was given in another process."""
    _GIVEN[sha256] = copy.deepcopy(module)


def _in_memory(name: str, sha256: str) -> nn.Module:
    """A copy of the module that was given in this process."""
    if sha256 not in _GIVEN:
        fail(
            "module", "be given again in a new process", name,
            f"load(folder, module={name.rpartition(':')[2]}(...)), or fit with the class and "
            "`module_options` in place of a module",
        )  # fmt: skip
    return copy.deepcopy(_GIVEN[sha256])


def module_network(
    config: ModuleConfig, name: str, options: Mapping[str, Any], given_sha256: str
) -> ModuleNetwork:
    """The network of an entry.

    Args:
        config: sizes and task.
        name: `package.module:Class`.
        options: arguments of the class; num_features or in_channels, and num_classes, num_outputs or
            out_channels, are filled in where the class takes them and they are not stated.
        given_sha256: hash of a module given in memory; "" makes one from its class.

    Raises:
        ValueError: the class cannot be loaded or refuses the options, or the module is not in this process.
    """
    if given_sha256:
        return ModuleNetwork(config, _in_memory(name, given_sha256))
    kind = user_code.load(name)
    if not issubclass(kind, nn.Module):
        fail("module", "name a subclass of torch.nn.Module", name)

    takes = inspect.signature(kind).parameters
    sizes = dict.fromkeys(("num_features", "in_channels"), config.num_features)
    sizes |= dict.fromkeys(("num_classes", "num_outputs", "out_channels"), config.num_outputs)
    stated = {key: value for key, value in sizes.items() if key in takes} | dict(options)

    make = _Make(name=name, kind=kind, stated=stated)
    return ModuleNetwork(config, make(np.random.default_rng(0)), make)


@dataclass(frozen=True, kw_only=True)
class _Make:
    """Makes a module of a class; a worker process gets it by its name."""

    name: str
    kind: type[nn.Module]
    stated: Mapping[str, Any]

    def __call__(self, rng: np.random.Generator) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            try:
                return self.kind(**self.stated)
            except Exception as error:
                why = f"{type(error).__name__}: {one_line(error)}"
                where = f"module_options of {self.name}"
                fail(where, "be arguments of the class", self.stated, why)
