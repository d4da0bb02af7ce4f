"""The GPU path, proved and timed by one command: `python -m benchmarks.gpu`.

Runs from a checkout with torch, numpy, scipy, numba and pyarrow alone, ends within eight minutes, and writes
a JSON file and a Markdown page: first whether the GPU is right (clipped sums against the float64 plain loop,
noise, runs that repeat), then how fast it is, against goals. Without a GPU it runs its CPU half - the same
checks on a simulated device, and the CPU step that the GPU will be compared with - and lists what is left.
Packages that are missing for Opacus or for releases can be carried: `python -m benchmarks.gpu_wheels`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._gpu_checks import all_checks
from benchmarks._page import fill
from benchmarks._simulated_cuda import simulated_cuda
from benchmarks._workloads import SHAPES, Workload, dp_gnn
from dpgnn.core.checks import require
from dpgnn.core.randomness import Streams
from dpgnn.models.network import Linear, Network, NetworkConfig
from dpgnn.training.chunks import chunks_of
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gpu.noise import NoiseAhead
from dpgnn.training.gpu.shapes import Shapes
from dpgnn.training.gradients import GPU_ROWS, Execution, RootGradients
from dpgnn.training.noise import add_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig

# with the imports before, less than eight minutes
SECONDS = 450
STREAMS = Streams(root_seed=1, axes={"entry": "benchmark"})
GOALS = (
    ("private step / non-private twin", "private", "twin", "<=", 1.25),
    ("CPU step, all cores / private step", "cpu", "private", ">=", 15.0),
    ("Opacus GradSampleModule / private step", "opacus", "private", ">=", 20.0),
    ("vmap(grad) at its best / private step", "vmap", "private", ">=", 8.0),
    ("products alone / private step, width 1024", "products 1024", "private 1024", ">=", 0.7),
)
# the last result of a GPU
KEPT = Path("benchmarks/gpu.json")
# measured after the chosen shape, if time is left
OTHERS = ("A-two-layers", "B-r2", "B-drw2", "B-mlp", "B-dpar602", "B-dpar8415-csr")
PLAN = (
    "clipped sums, noise and whole runs on the GPU itself (the checks above, not simulated)",
    "milliseconds of a step of shape A: private, twin, without graphs, torch's operations or fused kernels",
    "vmap(grad) at its best chunk, and Opacus where it is installed, on the same GPU",
    "share of the matrix products in a step of width 1024",
    "steps an hour of four runs on one GPU against one",
    "milliseconds of a step of other shapes",
)


class TimeUp(Exception):
    """The eight minutes are over; what was measured is written."""


class Steps:
    """Optimiser steps of a workload on a device, with noise as a run draws it."""

    def __init__(self, work: Workload, device: str, *, private: bool, graphs: bool = True,
                 kernels: str = "auto") -> None:  # fmt: skip
        self.roots, self.private, self.number = work.batch(), private, 0
        self.gradients = RootGradients(
            work.network, work.x, work.trees, clipping=work.clipping if private else None,
            execution=Execution(device=device),
        )  # fmt: skip
        parameters = work.network.initial(rng=np.random.default_rng(0)).to(device)
        self.optimizer = Optimizer(OptimizerConfig(lr=1e-4), parameters, 10**6)
        self.ahead: NoiseAhead | None = None
        resident = self.gradients._resident
        if resident is not None:
            resident.capture = graphs
            if kernels != "auto":
                from dpgnn.training.gpu.steps import chosen_operations

                resident.kernels, resident._operations = chosen_operations(kernels, resident.device)  # type: ignore[arg-type]
            self.ahead = NoiseAhead(
                1.0, len(parameters), lambda step: STREAMS.numpy("noise", step=step),
                num_steps=10**6, rounded=False, dtype=torch.float32, device=resident.device,
            )  # fmt: skip

    def __call__(self) -> None:
        """One step."""
        self.number += 1
        total = self.gradients(self.optimizer.parameters, self.roots)
        if self.private and self.ahead is not None:
            total = self.ahead.add(total, self.number)
        elif self.private:
            total = add_noise(total, 1.0, rng=STREAMS.numpy("noise", step=self.number))
        self.optimizer.step(total / len(self.roots))

    def close(self) -> None:
        """End the threads that draw noise."""
        if self.ahead is not None:
            self.ahead.__exit__(None, None, None)


def milliseconds(
    step: Callable[[], object], *, rounds: int, inner: int = 1, warm: int = 4
) -> float:
    """Median milliseconds of one call; waits for the GPU around every round."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(warm):
        step()
    found = []
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        for _ in range(inner):
            step()
        wait()
        found.append((time.perf_counter() - start) / inner)
    return 1e3 * statistics.median(found)


def cpu_step(work: Workload) -> Iterator[tuple[str, float]]:
    """The compiled step with all cores: what the GPU is compared with."""
    torch.set_num_threads(os.cpu_count() or 1)
    yield "cpu", milliseconds(Steps(work, "cpu", private=True), rounds=5, warm=2)


def host(work: Workload) -> Iterator[tuple[str, float]]:
    """What the host finds out of a step before the card begins: the shape of its batch, and its pieces."""
    shapes, roots = Shapes(work.trees), work.batch()

    def prepare() -> None:
        shapes.shape_of(roots)
        list(chunks_of(work.trees, roots, GPU_ROWS))

    yield "host: shape and pieces", milliseconds(prepare, rounds=21, inner=50)


def gpu_steps(work: Workload) -> Iterator[tuple[str, float]]:
    """Our step on the GPU in its forms."""
    forms: dict[str, dict[str, Any]] = {
        "private": {"private": True}, "twin": {"private": False},
        "private, no graphs": {"private": True, "graphs": False},
        "private, torch's operations": {"private": True, "kernels": "torch"},
    }  # fmt: skip
    for name, form in forms.items():
        step = Steps(work, "cuda", **form)
        yield name, milliseconds(step, rounds=9, inner=20)
        if name == "private":
            assert step.gradients._resident is not None
            yield f"kernels: {step.gradients._resident.kernels}", float("nan")
        step.close()


def naive(work: Workload) -> Iterator[tuple[str, float]]:
    """vmap(grad) at its best chunk and Opacus, on the GPU, without noise and optimiser."""
    from benchmarks._variants import Padded, PaddedModule
    from benchmarks.padded import vmap_sum
    from dpgnn.models.forward import per_root_loss

    batch = Padded(work)
    x, node, edges, y = (t.cuda() for t in (batch.x, batch.node, batch.adjacency, batch.y))
    parameters = work.network.initial(rng=np.random.default_rng(0)).cuda()

    def by_vmap(chunk: int) -> Callable[[], None]:
        def step() -> None:
            for at in range(0, len(y), chunk):
                part = slice(at, at + chunk)
                vmap_sum(work.network, parameters, x[node[part]], edges[part], y[part],
                         work.clipping, batch.sizes)  # fmt: skip

        return step

    found = [milliseconds(by_vmap(chunk), rounds=3, warm=1) for chunk in (250, 1000, 2500)]
    yield "vmap", min(found)
    from opacus import GradSampleModule

    module = GradSampleModule(PaddedModule(work, batch.sizes).cuda(), loss_reduction="sum")

    def by_opacus() -> None:
        for at in range(0, len(y), 500):
            part = slice(at, at + 500)
            per_root_loss(
                work.network, module(x[node[part]], edges[part]), y[part]
            ).sum().backward()
            module.zero_grad(set_to_none=True)

    yield "opacus", milliseconds(by_opacus, rounds=3, warm=1)


def wide(work: Workload) -> Iterator[tuple[str, float]]:
    """A step of width 1024, and its matrix products alone."""
    config = {"num_features": 128, "num_outputs": 40, "width": 1024, "skip": True}
    network = Network(NetworkConfig(**config, activation="tanh"))  # type: ignore[arg-type]
    clipping = uniform_clipping(network, "group", 4.5)
    large = Workload(name="width 1024", network=network, x=work.x, trees=work.trees,
                     batch_size=work.batch_size, clipping=clipping, pad_to=work.pad_to)  # fmt: skip
    step = Steps(large, "cuda", private=True)
    yield "private 1024", milliseconds(step, rounds=7, inner=10)
    step.close()
    yield "products 1024", milliseconds(products(large), rounds=7, inner=10)


def products(work: Workload) -> Callable[[], None]:
    """The matrix products of a step, into memory that exists already."""
    rows, made, first = work.trees.level_rows[work.batch()].sum(axis=0), [], True
    for index, op in enumerate(work.network.operations, start=1):
        if isinstance(op, Linear):
            n = int(rows[work.network.levels[index]])
            a, g = torch.randn(n, op.num_in).cuda(), torch.randn(n, op.num_out).cuda()
            made.append((a, torch.randn(op.num_in, op.num_out).cuda(), g, torch.empty_like(g),
                         None if first else torch.empty_like(a)))  # fmt: skip
            first = False

    def step() -> None:
        for a, w, g, z, back in made:
            torch.mm(a, w, out=z)
            torch.mm(a.T, g)
            if back is not None:
                torch.mm(g, w.T, out=back)

    return step


def shared(work: Workload) -> Iterator[tuple[str, float]]:
    """Steps an hour of one run and of four at a time, each a process of its own."""
    for runs in (1, 4):
        command = [sys.executable, "-m", "benchmarks.gpu", "--worker", "12"]
        started = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(runs)
        ]
        try:
            answers = [process.communicate()[0].split() for process in started]
        finally:
            for process in started:
                process.kill()
        yield f"steps an hour, {runs} at a time", sum(float(words[-1]) for words in answers) * 3600


def others(work: Workload) -> Iterator[tuple[str, float]]:
    """Steps of other shapes: private and not on the GPU, and the CPU's with all cores."""
    for shape in OTHERS:
        other = SHAPES[shape]()
        for name, device, private in (
            ("private", "cuda", True), ("twin", "cuda", False), ("cpu", "cpu", True)
        ):  # fmt: skip
            step = Steps(other, device, private=private)
            inner = 1 if device == "cpu" else 10
            yield f"{shape}: {name}", milliseconds(step, rounds=5, inner=inner, warm=3)
            step.close()


def worker(seconds: float) -> None:
    """Prints the steps per second of a private run that has the GPU to itself or shares it."""
    step = Steps(dp_gnn(), "cuda", private=True)
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    start, first = time.perf_counter(), step.number
    while time.perf_counter() - start < seconds:
        step()
    torch.cuda.synchronize()
    print((step.number - first) / (time.perf_counter() - start))
    step.close()


def measure(result: dict[str, Any], part: Callable[[Workload], Iterator[tuple[str, float]]],
            work: Workload) -> None:  # fmt: skip
    """Run a part of the timings; what it lacks is said, and the others go on."""
    try:
        for name, value in part(work):
            result["timings"][name] = value
            print(f"  {name}: {value:.4g}", file=sys.stderr, flush=True)
    except (ImportError, RuntimeError, ValueError, IndexError) as error:
        result["not_measured"][part.__name__] = f"{type(error).__name__}: {error}".splitlines()[0]


def correctness(result: dict[str, Any]) -> None:
    """Run every check; one that fails to run is a failure."""
    for name, part in all_checks().items():
        try:
            for found in part():
                result["checks"].append(found)
                print(f"  {found['check']}: {found['error']:.3g}", file=sys.stderr, flush=True)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            text = f"{name}: {type(error).__name__}: {error}".splitlines()[0]
            result["checks"].append({"check": text, "error": None, "bound": None, "ok": False})


def goals(timings: dict[str, float]) -> list[dict[str, Any]]:
    """Ratios that were measured, against their bounds."""
    found = []
    for name, over, under, sign, bound in GOALS:
        if over in timings and under in timings:
            ratio = timings[over] / timings[under]
            met = ratio <= bound if sign == "<=" else ratio >= bound
            found.append({"goal": name, "bound": f"{sign} {bound:g}", "ratio": ratio, "met": met})
    return found


def page(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [f"# GPU path on {result['device']}", "",
             f"torch {result['torch']}, Python {result['python']}, {result['cpus']} cores, "
             f"{result['seconds']:.0f} seconds.", "", "## Is it right?", "",
             "| check | error | bound | kept |", "| --- | ---: | ---: | --- |"]  # fmt: skip
    for each in result["checks"]:
        numbers = ["" if each[k] is None else f"{each[k]:.3g}" for k in ("error", "bound")]
        kept = "yes" if each["ok"] else "**no**"
        lines.append(f"| {each['check']} | {numbers[0]} | {numbers[1]} | {kept} |")
    lines += ["", "## How fast?", "", "| what | measured |", "| --- | ---: |"]
    for name, value in result["timings"].items():
        lines.append(f"| {name} | {'' if value != value else f'{value:,.3f}'} |")
    if result["goals"]:
        lines += ["", "| goal | bound | ratio | met |", "| --- | --- | ---: | --- |"]
    for each in result["goals"]:
        met = "yes" if each["met"] else "**no**"
        lines.append(f"| {each['goal']} | {each['bound']} | {each['ratio']:.2f} | {met} |")
    for name, why in result["not_measured"].items():
        lines.append(f"\nNot measured: {name} ({why}).")
    if result["would_do"]:
        lines += ["", "## With a GPU this command would also do", ""]
        lines += [f"- {each}" for each in result["would_do"]]
    return "\n".join(lines) + "\n"


def summary(result: dict[str, Any]) -> str:
    """The result for docs/performance.md: checks by kind, steps by shape, goals, the rest."""
    checks, timings = result["checks"], dict(result["timings"])
    kept = sum(each["ok"] for each in checks)
    lines = [
        f"{result['device']}, torch {result['torch']}, {result['cpus']} cores, "
        f"{result['seconds']:.0f} seconds. {kept} of {len(checks)} checks keep their bound.", "",
        "| shape | private, ms | not private, ms | ratio | CPU step, ms | CPU / private |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for shape in (None, *OTHERS):
        names = [
            name if shape is None else f"{shape}: {name}" for name in ("private", "twin", "cpu")
        ]
        if all(name in timings for name in names):
            private, twin, cpu = (timings.pop(name) for name in names)
            row = f"{private:.3f} | {twin:.3f} | {private / twin:.2f} | {cpu:.2f} | {cpu / private:.1f}"
            lines.append(f"| {shape or result['shape']} | {row} |")
    lines += ["", "| goal | bound | measured | met |", "| --- | --- | ---: | --- |"]
    for each in result["goals"]:
        met = "yes" if each["met"] else "**no**"
        lines.append(f"| {each['goal']} | {each['bound']} | {each['ratio']:.2f} | {met} |")
    lines += ["", "| also | measured |", "| --- | ---: |"]
    lines += [f"| {name} | {value:,.3f} |" for name, value in timings.items() if value is not None]
    return "\n".join(lines)


def fill_docs(path: Path) -> None:
    """Keep a result of a real GPU: `benchmarks/gpu.json` and its part of docs/performance.md.

    Raises:
        ValueError: it was made on the simulated device.
    """
    text = path.read_text(encoding="utf-8")
    result = json.loads(text)
    require(not result["simulated"], str(path), "be of a GPU", "a simulated device")
    KEPT.write_text(text, encoding="utf-8")
    fill(Path("docs/performance.md"), "gpu", summary(result))


def main(argv: list[str] | None = None) -> int:
    """Check, measure, write; 1 where a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("work/gpu"), help="folder of the results")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="ends after so many seconds")
    parser.add_argument("--shape", choices=list(SHAPES), default="A", help="of the timed steps")
    parser.add_argument("--checks-only", action="store_true", help="no timings")
    parser.add_argument(
        "--fill", type=Path, metavar="JSON",
        help="measure nothing; put this result of a GPU into benchmarks/ and docs/performance.md",
    )  # fmt: skip
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        worker(args.worker)
        return 0
    if args.fill:
        fill_docs(args.fill)
        return 0
    start, here = time.monotonic(), torch.cuda.is_available()
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if here else "no GPU (simulated device)",
        "simulated": not here, "torch": torch.__version__, "python": platform.python_version(),
        "cpus": os.cpu_count(), "shape": args.shape, "checks": [], "timings": {}, "goals": [],
        "not_measured": {}, "would_do": [] if here else list(PLAN),
    }  # fmt: skip

    def stop(number: int, frame: object) -> None:
        raise TimeUp

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(args.seconds)
    try:
        print("checks", file=sys.stderr, flush=True)
        with nullcontext() if here else simulated_cuda():
            correctness(result)
        if not args.checks_only:
            print("timings", file=sys.stderr, flush=True)
            work = SHAPES[args.shape]()
            on_gpu = (host, gpu_steps, cpu_step, naive, wide, shared, others)
            for part in on_gpu if here else (host, cpu_step):
                measure(result, part, work)
    except TimeUp:
        result["not_measured"]["the rest"] = f"{args.seconds} seconds were over"
    finally:
        signal.alarm(0)
    result |= {"seconds": time.monotonic() - start, "goals": goals(result["timings"])}
    args.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain(result), indent=1)
    (args.out / "gpu.json").write_text(text + "\n", encoding="utf-8")
    (args.out / "gpu.md").write_text(page(result), encoding="utf-8")
    print(page(result))
    return 0 if all(each["ok"] for each in result["checks"]) else 1


def _plain(value: Any) -> Any:
    """Without NaN, which JSON has not."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value


if __name__ == "__main__":
    sys.exit(main())
