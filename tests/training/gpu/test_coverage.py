"""Without a GPU, every line of the GPU path runs: on the simulated device, but for the kernels themselves.

Lines are counted while whole methods train there; the counted files and branches are found, not listed, so
that a new branch for a GPU has to be reached here as well.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import contract
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import ROOT

from dpgnn import methods
from dpgnn.core.randomness import FreshSecrets
from dpgnn.methods.base import Performance, Support
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gpu import noise, shapes, steps
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise, add_rounded_noise
from dpgnn.training.softmax import softmax

PACKAGE = ROOT / "dpgnn"
GPU = PACKAGE / "training" / "gpu"
# run by Triton's interpreter in test_kernels.py, and by a GPU
KERNELS = GPU / "kernels.py"
# a user's own module has ways of its own, which are not simulated
MODULES = PACKAGE / "training" / "modules"
# entries whose training asks for a device, each over one kind of trees
TRAINED = ("dp_gnn", "dp_mlp", "drw", "dpar", "dpdgc")


def _branches(path: Path) -> set[int]:
    """Lines of the branches that a module takes for a GPU, and for a CPU, by the device's type."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
        if isinstance(node, ast.If) and re.search(r"\.type\b.*'(cuda|cpu)'", test):
            for part in (*node.body, *node.orelse):
                found |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return found


def _executable(path: Path) -> set[int]:
    """Lines that hold code inside functions; what runs at import was run by whoever imported first."""
    found: set[int] = set()

    def visit(code: CodeType) -> None:
        if code.co_name not in ("<module>",) and not _is_class(code):
            # the line of `def` belongs to the enclosing code
            found.update(
                line for *_, line in code.co_lines() if line and line > code.co_firstlineno
            )
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                visit(constant)

    visit(compile(path.read_text(encoding="utf-8"), str(path), "exec"))
    return found


def _is_class(code: CodeType) -> bool:
    return "__module__" in code.co_names and "__qualname__" in code.co_names


def wanted() -> dict[str, set[int]]:
    """File -> lines that have to run: all of the GPU's own modules, and branches for it elsewhere."""
    found = {str(path): _executable(path) for path in GPU.glob("*.py") if path != KERNELS}
    for path in PACKAGE.rglob("*.py"):
        if {GPU, MODULES} & set(path.parents):
            continue
        if lines := _branches(path) & _executable(path):
            found[str(path)] = lines
    return found


@contextmanager
def counted(files: set[str]) -> Iterator[dict[str, set[int]]]:
    """Lines of these files that run meanwhile, in all threads."""
    lines: dict[str, set[int]] = defaultdict(set)

    def in_frame(frame: FrameType, event: str, given: Any) -> Any:
        lines[frame.f_code.co_filename].add(frame.f_lineno)
        return in_frame

    def tracer(frame: FrameType, event: str, given: Any) -> Any:
        return in_frame(frame, event, given) if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    threading.settrace(tracer)
    sys.settrace(tracer)
    try:
        yield lines
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]


def _method(folder: Path, name: str, device: str, **changes: Any) -> dict[str, Any]:
    method = methods.get(name)
    support = next(item for item in method.supports)
    entry = contract.entry_of(name, "sound", support)
    return contract.run(folder, entry, performance=Performance(device=device), **changes)


def _sums(make_problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no method reaches: sparse rows, large trees, other shapes, bounds by tensor, refusals."""
    execution = Execution(device="cuda")
    for config in (
        {"num_hops": 2, "conv": "sage"},
        {"num_hops": 1, "conv": "gat"},
        {"num_hops": 0},
    ):
        problem = make_problem(1, num_roots=8, **config)
        clipping = uniform_clipping(problem.network, "tensor", 0.3)
        given = (problem.network, sp.csr_array(problem.x), problem.trees)
        gradients = RootGradients(*given, clipping=clipping, execution=execution)
        gradients.track_loss = True
        parameters = problem.parameters.float().to("cuda")
        for _ in range(3):
            gradients(parameters, problem.roots)
        assert np.isfinite(gradients.mean_loss)
    monkeypatch.setattr(shapes, "LARGEST_TREE", 3)
    monkeypatch.setattr(steps, "NUM_GRAPHS", 1)
    problem = make_problem(2, num_roots=80, num_hops=2)
    given = (problem.network, problem.x, problem.trees)
    parameters = problem.parameters.float().to("cuda")
    gradients = RootGradients(*given, clipping=None, execution=execution)
    assert gradients._resident is not None
    gradients._resident.capture = False
    rows = problem.trees.level_rows[:, 0]
    largest = int(np.argmax(np.where(rows <= 3, rows, 0)))
    for roots in (np.arange(80), np.arange(2), np.full(200, largest)):
        gradients(parameters, roots)
    monkeypatch.setattr(shapes, "LARGEST_TREE", 0)  # no tree fits
    RootGradients(*given, clipping=None, execution=execution)(parameters, np.arange(3))
    # what the CPU does by itself: a release of a network with attention, a softmax that is differentiated
    problem = make_problem(1, num_roots=8, num_hops=1, conv="gat")
    given = (problem.network, problem.x, problem.trees)
    RootGradients(
        *given, clipping=uniform_clipping(problem.network, "tensor", 0.3)
    ).sum_for_release()
    assert softmax(torch.zeros(2, 3, requires_grad=True)).requires_grad


def _choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations by kernels that are trusted, and by kernels that are not there."""
    device, fused = torch.device("cuda"), ModuleType("kernels")
    fused.trusted = lambda device: True  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(steps.importlib.util, "find_spec", lambda name: object())
        patch.setitem(sys.modules, "dpgnn.training.gpu.kernels", fused)
        patch.setattr("dpgnn.training.gpu.kernels", fused, raising=False)
        assert steps.chosen_operations("auto", device) == ("triton", fused)
        patch.setattr(steps.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ValueError, match="kernels must be torch"):
            steps.chosen_operations("triton", device)


def _noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is added without a plan ahead, and coordinates that more bits decide."""
    total = torch.zeros(60)
    add_noise(total.to("cuda"), 1.0, rng=np.random.default_rng(0))
    add_rounded_noise(total.double().to("cuda"), 1.0, rng=np.random.default_rng(0))
    for device in ("cpu", "cuda"):
        add_noise(total.to(device), 1.0, rng=np.random.default_rng(0))
    whole = noise.draw_ahead

    def unsure(*given: Any, **named: Any) -> Any:
        drawn = whole(*given, **named)
        drawn.room[:2] = -1.0
        return drawn

    monkeypatch.setattr(noise, "draw_ahead", unsure)
    streams = FreshSecrets(root_seed=1, axes={}, randomness="release", secret_seed=2)
    with noise.NoiseAhead(
        1.0, 60, lambda step: streams.numpy("noise", step=step), num_steps=2, rounded=True,
        dtype=torch.float32, device=torch.device("cuda"),
    ) as ahead:  # fmt: skip
        ahead.add(total.double().to("cuda"), 1)


def test_every_line_for_a_gpu_runs_and_methods_give_the_metrics_of_the_cpu(
    simulated: Any, make_problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = wanted()
    assert len(needed) > 10, sorted(needed)
    with counted(set(needed)) as lines:
        for name in TRAINED:
            here = _method(tmp_path / "cpu" / name, name, "cpu")
            with simulated.simulated_cuda() as gpu:
                there = _method(tmp_path / "gpu" / name, name, "cuda")
                assert gpu.replays > 0, f"{name} never replayed a graph"
            _same_metrics(here["metrics"], there["metrics"])
            assert there["claims"] == here["claims"]
        with simulated.simulated_cuda():
            _choice(monkeypatch)
            _sums(make_problem, monkeypatch)
            _noise(monkeypatch)
    missed = {
        f"{Path(file).relative_to(ROOT)}:{line}"
        for file, wanted_lines in needed.items()
        for line in wanted_lines - lines[file]
    }
    assert not missed, f"lines for a GPU that nothing runs: {sorted(missed)}"


def _same_metrics(here: dict[str, Any], there: dict[str, Any]) -> None:
    """Equal up to a node on the boundary: sums are rounded otherwise."""
    assert here.keys() == there.keys()
    for name, value in here.items():
        if isinstance(value, float):
            assert there[name] == pytest.approx(value, abs=0.11), name


def test_a_branch_that_nothing_reaches_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f(device):\n    if device.type == 'cuda':\n        return 1\n    else:\n        return 2\n"
    )
    assert _branches(path) == {3, 5}
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with counted({str(path)}) as lines:
        names["f"](torch.device("cpu"))
    assert _executable(path) - lines[str(path)] == {3}


def test_sums_that_only_the_host_computes_come_back_to_the_device(
    simulated: Any, tmp_path: Path
) -> None:
    support = Support(privacy_unit="node", relation="add-remove")
    entry = contract.entry_of("heterpoisson", "published", support)
    here = contract.run(tmp_path / "cpu", entry)
    with simulated.simulated_cuda():
        there = contract.run(tmp_path / "gpu", entry, performance=Performance(device="cuda"))
    _same_metrics(here["metrics"], there["metrics"])
