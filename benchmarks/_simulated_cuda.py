"""A CUDA device that is not there: its tensors are a CPU's, its rules are CUDA's.

Inside `simulated_cuda()` the library's own GPU code runs line by line, with right values. What a GPU refuses
is refused here too: numbers of host and device in one operation, reading device memory as an array, and while
a graph is captured whatever would wait for the device or copy from ordinary memory. A captured graph replays
exactly the operations that were captured, on the same memory; Python code between them does not run again.
Time, and what kernels do in parallel, are not simulated. For tests, and for the benchmark without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

CUDA, SIMULATED = torch.device("cuda", 0), "simulated"
# sizes of their results depend on values, so CUDA waits for the device
WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2",
           "aten::equal", "aten::unique_dim", "aten::bincount"}  # fmt: skip
TRANSFERS = {"aten::copy_", "aten::_to_copy"}


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on a GPU; `held` is on the CPU."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> DeviceTensor:
        """Wrap a CPU tensor; views of it share its memory."""
        # to torch's C++ code it is a tensor without data, for which autograd asks no driver
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device="meta",
        )  # fmt: skip

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """cuda:0."""
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        """True."""
        return True

    def data_ptr(self) -> int:
        """The address of what is held."""
        return self.held.data_ptr()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"DeviceTensor({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """For threads in which no mode is active."""
        return run_operation(func, args, kwargs or {})


class _Capture:
    """The operations of a graph, each with its arguments and results."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.spoilt = False

    def keep(self, func: Any, args: Any, kwargs: Any) -> None:
        """Copies of what an operation is about to change."""
        for index, argument in enumerate(func._schema.arguments):
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            if (
                argument.alias_info is not None
                and argument.alias_info.is_write
                and _is_tensor(value)
            ):
                self.before.append((value, value.clone()))

    def undo(self) -> None:
        """Put back what was changed, last change first: CUDA records operations and runs none."""
        for held, before in reversed(self.before):
            held.copy_(before)
        self.before.clear()

    def replay(self) -> None:
        """Run the operations again, on the same memory."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            for func, args, kwargs, results in self.operations:
                found = [t for t in tree_flatten(func(*args, **kwargs))[0] if _is_tensor(t)]
                for held, value in zip(results, found):
                    if held.data_ptr() != value.data_ptr():
                        held.copy_(value)


class _State:
    """What is going on: the capture under way, memory said to be free, and a count of operations."""

    capture: _Capture | None = None
    free = 8 << 30
    total = 16 << 30
    waits = 0
    replays = 0
    operations: dict[str, int] = {}  # noqa: RUF012 one device, one state


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, DeviceTensor) else value


def run_operation(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One operation of torch, by CUDA's rules."""
    name, kwargs = func._schema.name, dict(kwargs)
    flat = tree_flatten((args, kwargs))[0]
    on_device = any(isinstance(value, DeviceTensor) for value in flat)
    asked = kwargs.get("device")
    # torch's C++ code takes device tensors for meta tensors, and asks for more of them
    to_device = on_device if asked is None else torch.device(asked).type in ("cuda", "meta")
    if asked is not None:
        kwargs["device"] = torch.device("cpu")
    if kwargs.pop("pin_memory", False):
        kwargs["pin_memory"] = False
    host = [v for v in flat if _is_tensor(v) and not isinstance(v, DeviceTensor) and v.dim() > 0]
    if on_device and host and name not in TRANSFERS:
        raise RuntimeError(f"{name}: expected all tensors on one device, found cuda:0 and cpu")
    if on_device and (name in WAITING or (name in TRANSFERS and not to_device)):
        _State.waits += 1
        if _State.capture is not None:
            raise RuntimeError(f"{name} waits for the device while a graph is captured")
    if on_device and host and _State.capture is not None:
        raise RuntimeError(f"{name} copies from host memory while a graph is captured")
    plain_args, plain_kwargs = tree_map(_held, args), tree_map(_held, kwargs)
    if _State.capture is not None:
        _State.capture.keep(func, plain_args, plain_kwargs)
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        found = func(*plain_args, **plain_kwargs)
    if not to_device and not on_device:
        return found
    _State.operations[name] = _State.operations.get(name, 0) + 1
    if name == "aten::copy_" and not isinstance(args[0], DeviceTensor):
        return args[0]
    if _State.capture is not None and to_device:
        results = [value for value in tree_flatten(found)[0] if _is_tensor(value)]
        _State.capture.operations.append((func, plain_args, plain_kwargs, results))
    # what is changed in place comes back as the tensor that was given
    given = {id(_held(value)): value for value in flat if isinstance(value, DeviceTensor)}

    def wrapped(value: Any) -> Any:
        if not _is_tensor(value):
            return value
        if id(value) in given:
            return given[id(value)]
        return DeviceTensor(value) if to_device else value

    return tree_map(wrapped, found)


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run_operation(func, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """Calls that ask a driver before any operation: moves to the device, and pinned memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            func, args = torch.Tensor.to, (args[0], CUDA)
        if func is torch.Tensor.to:
            where = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, (str, torch.device))]
            if where and torch.device(where[0]).type == "cuda":
                rest = [v for v in args[1:] if not isinstance(v, (str, torch.device))]
                kwargs.pop("device", None)
                kwargs.pop("non_blocking", None)
                moved = args[0].to(*rest, **kwargs) if rest or kwargs else args[0]
                if isinstance(moved, DeviceTensor):
                    return moved
                if _State.capture is not None:
                    raise RuntimeError("to copies from host memory while a graph is captured")
                return DeviceTensor(moved.detach().clone())
        if func is torch.Tensor.pin_memory:
            return args[0].clone()
        if kwargs.pop("pin_memory", False):
            kwargs["pin_memory"] = False
        return func(*args, **kwargs)


class Stream:
    """A stream; everything is done at once, in the order of the calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.waited: list[Any] = []

    def wait_stream(self, other: Any) -> None:
        """Nothing is under way."""
        self.waited.append(other)

    def wait_event(self, event: Any) -> None:
        """Nothing is under way."""
        if not event.recorded:
            raise RuntimeError("an event is waited for that nothing records")
        self.waited.append(event)

    def synchronize(self) -> None:
        """Nothing is under way."""
        _no_wait()


class Event:
    """An event of a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.recorded = False

    def record(self, stream: Any = None) -> None:
        """It has happened."""
        self.recorded = True

    def synchronize(self) -> None:
        """It has happened, or was never recorded, which does not wait either."""
        _no_wait()

    def elapsed_time(self, other: Any) -> float:
        """No time is simulated."""
        return float("nan")


class CUDAGraph:
    """A graph: what was captured, ready to be run again."""

    def __init__(self) -> None:
        self.captured: _Capture | None = None

    def __del__(self) -> None:
        """The driver refuses to drop a graph while another is captured, which is then spoilt."""
        if self.captured is not None and _State.capture is not None:
            _State.capture.spoilt = True

    def replay(self) -> None:
        """Run what was captured."""
        if self.captured is None:
            raise RuntimeError("a graph is replayed that was never captured")
        _State.replays += 1
        self.captured.replay()


def _no_wait(*args: Any, **kwargs: Any) -> None:
    if _State.capture is not None:
        raise RuntimeError("the device is waited for while a graph is captured")


@contextmanager
def _graph(graph: CUDAGraph, **options: Any) -> Iterator[None]:
    """Capture what is called: it has to be run to know what it is, so what it changes is put back."""
    _State.capture = _Capture()
    try:
        yield
        graph.captured = _State.capture
    finally:
        _State.capture = None
    graph.captured.undo()
    if graph.captured.spoilt:
        raise RuntimeError("operation failed due to a previous error during capture")


@contextmanager
def _on(stream: Any) -> Iterator[Any]:
    yield stream


def operations_so_far() -> dict[str, int]:
    """How often each operation was called on the device."""
    return dict(_State.operations)


@contextmanager
def simulated_cuda(*, free: int = 8 << 30, total: int = 16 << 30) -> Iterator[type[_State]]:
    """Make `torch.device("cuda")` work in this thread; gives counts of waits, replays and operations.

    Args:
        free, total: bytes that the device says it has.
    """
    _State.free, _State.total = free, total
    _State.waits = _State.replays = 0
    _State.operations = {}
    stream = Stream()
    patches: dict[str, Any] = {
        "_lazy_init": lambda: None, "is_available": lambda: True, "device_count": lambda: 1,
        "current_device": lambda: 0, "mem_get_info": lambda *a: (_State.free, _State.total),
        "Stream": Stream, "Event": Event, "CUDAGraph": CUDAGraph, "graph": _graph, "stream": _on,
        "current_stream": lambda *a: stream, "synchronize": _no_wait,
        "graph_pool_handle": lambda: (0, 1), "get_device_name": lambda *a: SIMULATED,
        "empty_cache": lambda: None,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, value in patches.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(_Calls())
        stack.enter_context(_Operations())
        yield _State
