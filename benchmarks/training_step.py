"""One optimiser step, side by side: `python -m benchmarks.training_step`.

Times the padded non-private step, its chunked form, our private step and its non-private twin (compiled and
pure torch), torch.func's vmap(grad) at its best chunk, Opacus, and the matrix products alone, on the shapes
of the published experiments; measures peak memory of fresh processes; writes a JSON file and the tables of
docs/performance.md. Ratios come from interleaved rounds within one process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks import _variants as variants
from benchmarks._page import fill
from benchmarks._timing import interleaved, peak_extra_bytes, ratios
from benchmarks._workloads import SHAPES, Workload

CHUNK = 512
NAIVE_PART = 10  # naive variants run on a tenth of the batch and are scaled
NAIVE = ("A", "B-r2", "B-drw2", "B-mlp", "B-dpar602", "B-dpar8415")
MEMORY = (
    ("padded", 10_000), ("padded, chunks", 10_000), ("ours, torch", 10_000),
    ("ours, torch", 40_000), ("ours, compiled", 10_000), ("ours, compiled", 40_000),
)  # fmt: skip


def steps_of(work: Workload, *, naive: bool) -> tuple[dict[str, variants.Step], dict[str, float]]:
    """Variants of a shape and the factor that scales each to the whole batch."""
    steps: dict[str, variants.Step] = {
        "padded": variants.padded(work),
        "padded, chunks": variants.padded(work, CHUNK),
        "twin, torch": variants.engine(work, "torch", private=False),
        "ours, torch": variants.engine(work, "torch", private=True),
        "twin, compiled": variants.engine(work, "compiled", private=False),
        "ours, compiled": variants.engine(work, "compiled", private=True),
        "products only": variants.floor(work),
    }
    scale: dict[str, float] = {}
    if naive:
        part = work.batch_size // NAIVE_PART if work.batch_size > 1000 else work.batch_size
        factor = work.batch_size / part
        tried = {
            f"vmap, chunks of {chunk}": variants.vmap_grad(work, chunk, part)
            for chunk in (16, 32, 64)
        }
        found = interleaved(tried, rounds=2)
        best = min(found, key=lambda name: found[name].median)
        steps[best], scale[best] = tried[best], factor
        name = f"Opacus, chunks of {min(500, part)}"
        steps[name], scale[name] = variants.opacus(work, 500, part), factor
    return steps, scale


def measure(shape: str, *, rounds: int, naive: bool) -> dict[str, Any]:
    """Milliseconds and ratios of every variant of a shape."""
    work = SHAPES[shape]()
    roots = work.batch()
    rows = int((work.trees.row_ptr[roots + 1] - work.trees.row_ptr[roots]).sum())
    # steps of a millisecond need more rounds than steps of a second
    rounds *= 1 if work.batch_size > 1000 else 10
    steps, scale = steps_of(work, naive=naive)
    timings = interleaved(steps, rounds=rounds, scale=scale)
    load = round(os.getloadavg()[0], 1)
    return {
        "shape": shape, "name": work.name, "batch_size": len(roots), "rows": rows,
        "padded_rows": len(roots) * work.pad_to, "num_parameters": work.network.num_parameters,
        "rounds": rounds, "load_average": load,
        "variants": {
            name: {
                "milliseconds": round(1e3 * timing.median, 3),
                "of_padded": round(ratios(timings, name, "padded"), 4),
                "of_padded_chunks": round(ratios(timings, name, "padded, chunks"), 4),
                "of_ours_compiled": round(ratios(timings, name, "ours, compiled"), 4),
                "of_ours_torch": round(ratios(timings, name, "ours, torch"), 4),
                "of_twin_compiled": round(ratios(timings, name, "twin, compiled"), 4),
                "of_twin_torch": round(ratios(timings, name, "twin, torch"), 4),
            }
            for name, timing in timings.items()
        },
    }  # fmt: skip


def measure_memory(name: str, batch_size: int) -> int:
    """Peak resident bytes of a step of shape A above the level before it; this process is fresh."""

    def prepare() -> variants.Step:
        work = SHAPES["A"]()
        if name.startswith("padded"):
            return variants.padded(work, CHUNK if "chunks" in name else None)
        return variants.engine(
            work, name.removeprefix("ours, "), private=True, batch_size=batch_size
        )

    # equally many chunks for every m, so that what an allocator holds back is the same
    return peak_extra_bytes(prepare, repeats=80_000 // batch_size)


def memory_table() -> list[dict[str, Any]]:
    """Peak memory of each variant in a process of its own."""
    found = []
    for name, batch_size in MEMORY:
        command = [
            sys.executable,
            "-m",
            "benchmarks.training_step",
            "--memory-of",
            name,
            str(batch_size),
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes = int(answer.stdout.split()[-1]) / 2**20
        found.append({"variant": name, "batch_size": batch_size, "megabytes": round(megabytes, 1)})
    return found


def goals(
    shapes: dict[str, Any], memory: list[dict[str, Any]]
) -> list[tuple[str, str, float, bool]]:
    """(goal, bound, measured, met) of the goals that this benchmark can decide."""
    found: list[tuple[str, str, float, bool]] = []

    def at_most(goal: str, value: float | None, bound: float) -> None:
        if value is not None:
            found.append((goal, f"<= {bound:g}", value, value <= bound))

    def at_least(goal: str, value: float | None, bound: float) -> None:
        if value is not None:
            found.append((goal, f">= {bound:g}", value, value >= bound))

    def ratio(shape: str, variant: str, over: str) -> float | None:
        held = shapes.get(shape, {}).get("variants", {})
        name = next((key for key in held if key.startswith(variant)), None)
        return None if name is None else held[name][f"of_{over}"]

    at_most(
        "1 private / non-private twin, compiled",
        ratio("A", "ours, compiled", "twin_compiled"),
        1.20,
    )
    at_most("2 private / padded, torch", ratio("A", "ours, torch", "padded"), 0.85)
    at_most("2 private / padded, compiled", ratio("A", "ours, compiled", "padded"), 0.45)
    at_most("3 private / chunked padded, torch", ratio("A", "ours, torch", "padded_chunks"), 1.35)
    at_most(
        "3 private / chunked padded, compiled", ratio("A", "ours, compiled", "padded_chunks"), 0.80
    )
    at_least("4 vmap at its best / private, torch", ratio("A", "vmap", "ours_torch"), 6)
    at_least("4 vmap at its best / private, compiled", ratio("A", "vmap", "ours_compiled"), 10)
    at_least("5 Opacus / private, torch", ratio("A", "Opacus", "ours_torch"), 14)
    held = {(row["variant"], row["batch_size"]): row["megabytes"] for row in memory}
    at_most("6 peak MB, torch", held.get(("ours, torch", 10_000)), 120)
    at_most("6 peak MB, compiled", held.get(("ours, compiled", 10_000)), 40)
    for path in ("torch", "compiled"):
        pair = [held.get((f"ours, {path}", size)) for size in (10_000, 40_000)]
        if None not in pair:
            at_most(f"6 peak MB at m=40,000, {path}", pair[1], pair[0] + 8)
    at_most(
        "7 lists cut at 100: private / padded, compiled",
        ratio("A-cut100", "ours, compiled", "padded"),
        0.10,
    )
    for shape in ("B-r2", "B-r2-ppi", "B-drw2", "B-drw3"):
        at_most(f"8 {shape}: private / padded, torch", ratio(shape, "ours, torch", "padded"), 0.85)
        at_most(
            f"8 {shape}: private / chunked padded, torch",
            ratio(shape, "ours, torch", "padded_chunks"),
            1.35,
        )
    at_most("8 B-mlp: private / padded, compiled", ratio("B-mlp", "ours, compiled", "padded"), 1.6)
    for shape in ("B-dpar602", "B-dpar2879", "B-dpar8415", "B-dpar8415-csr"):
        at_most(
            f"8 {shape}: private / padded, compiled", ratio(shape, "ours, compiled", "padded"), 1.8
        )
    return found


def tables(result: dict[str, Any]) -> str:
    """The measured part of docs/performance.md."""
    lines = []
    for threads, shapes in sorted(result["runs"].items()):
        lines += [f"### {threads} thread{'s' if threads != '1' else ''}", ""]
        for shape in sorted(
            shapes.values(), key=lambda measured: list(SHAPES).index(measured["shape"])
        ):
            lines += [
                f"**{shape['shape']}**: {shape['name']}, {shape['batch_size']:,} roots, "
                f"{shape['rows']:,} rows ({shape['padded_rows']:,} padded), "
                f"{shape['num_parameters']:,} parameters, median of {shape['rounds']} rounds, "
                f"load average {shape['load_average']}.",
                "", "| step | ms | of padded | of chunked padded |", "| --- | --- | --- | --- |",
            ]  # fmt: skip
            for name, row in shape["variants"].items():
                lines.append(
                    f"| {name} | {row['milliseconds']:.1f} | {row['of_padded']:.2f} "
                    f"| {row['of_padded_chunks']:.2f} |"
                )
            lines.append("")
    lines += ["### Peak memory of a step of shape A, fresh processes, 1 thread", ""]
    lines += ["| step | m | MB above the level before |", "| --- | --- | --- |"]
    for row in result["memory"]:
        lines.append(f"| {row['variant']} | {row['batch_size']:,} | {row['megabytes']:.0f} |")
    lines += [
        "",
        "### Goals, 1 thread",
        "",
        "| goal | bound | measured | met |",
        "| --- | --- | --- | --- |",
    ]
    for goal, bound, value, met in result["goals"]:
        lines.append(f"| {goal} | {bound} | {value:.2f} | {'yes' if met else '**no**'} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shape", action="append", choices=list(SHAPES), help="all when none is given"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=Path, default=Path("benchmarks/training_step.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/performance.md"))
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-of", nargs=2, metavar=("VARIANT", "M"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.memory_of:
        print(measure_memory(args.memory_of[0], int(args.memory_of[1])))
        return 0
    held = _read(args.json)
    for threads in args.threads:
        torch.set_num_threads(threads)
        for shape in args.shape or SHAPES:
            print(f"{threads} thread(s): {shape}", file=sys.stderr, flush=True)
            naive = threads == 1 and shape in NAIVE
            measured = measure(shape, rounds=args.rounds, naive=naive)
            held["runs"].setdefault(str(threads), {})[shape] = measured
            _write(args, held)
    torch.set_num_threads(1)
    if not args.no_memory:
        held["memory"] = memory_table()
    _write(args, held)
    missed = [goal for goal, _, _, met in held["goals"] if not met]
    print("goals missed: " + ("; ".join(missed) or "none"))
    return 1 if missed else 0


def _read(path: Path) -> dict[str, Any]:
    """What was measured before: a shape that is measured again replaces its own numbers only."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    return {"runs": {}, "memory": [], "goals": []}


def _write(args: argparse.Namespace, held: dict[str, Any]) -> None:
    """The JSON file and the page, with the goals of everything measured so far."""
    held |= {"torch": torch.__version__, "machine": platform.machine(), "cpus": os.cpu_count()}
    held["goals"] = goals(held["runs"].get("1", {}), held["memory"])
    args.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    fill(args.page, "measured", tables(held))


if __name__ == "__main__":
    sys.exit(main())
