"""Parts of a full-batch epoch and of a private step: each against torch or numpy by themselves.

Sizes are those of Computers (13,752 x 767 features) and Rutgers89 (20,021 nodes, 1.2 M arcs, 64 columns).
Ratios are of processor time, the median over rounds of the ratio within a round; 1 thread.

python -m benchmarks.full_batch   a minute; writes benchmarks/full_batch.json and into docs/performance.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks._page import fill
from benchmarks._timing import interleaved, ratios
from dpgnn.core import storage
from dpgnn.core.memory import keep_freed_memory
from dpgnn.data.graph import distinct_keys
from dpgnn.models._sparse import product
from dpgnn.models.gcn import normalized_adjacency
from dpgnn.models.inputs import dropped
from dpgnn.models.masks import Masks
from dpgnn.training._grams import InputGrams
from dpgnn.training.ghost import root_norms
from dpgnn.training.noise import add_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig

ROOT = Path(__file__).resolve().parents[1]
FEATURES, NODES, ARCS, WIDTH = (13_752, 767), 20_021, 1_219_462, 64
Step = Callable[[], object]
MEMORY = """\
import sys, time
import torch
from dpgnn.core.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
torch.set_num_threads(1)
x, times = torch.rand({shape}), []
for _ in range(100):
    start = time.process_time()
    torch.mul(x, x)
    times.append(time.process_time() - start)
print(sorted(times[50:])[25])  # the first dozens find their places
"""


def cases() -> dict[str, tuple[Step, Step]]:
    """What is done -> by torch or numpy, ours."""
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    x, masks = torch.rand(FEATURES), Masks(generator)

    def torchs_dropout() -> object:
        return torch.rand(x.shape, generator=generator).ge_(0.5).mul_(x).div_(0.5)

    ends = rng.integers(0, NODES, (2, ARCS))
    matrix, h = normalized_adjacency(ends, NODES).matrix, torch.rand(NODES, WIDTH)
    keys = ends[0] * NODES + ends[1]
    total = torch.zeros(NODES * WIDTH)

    def noise_in_passes() -> object:
        draw = torch.from_numpy(rng.standard_normal(len(total))).mul_(2.0)
        return total + draw.to(total.dtype)

    weights = torch.nn.Parameter(total.clone())
    weights.grad = torch.rand(len(total))
    theirs = torch.optim.Adam([weights], lr=1e-3)
    adam = Optimizer(OptimizerConfig(name="adam", lr=1e-3), total.clone(), 1)

    # 250 trees as those of Computers: most have few rows, a few have many
    counts = np.minimum(1 + rng.geometric(1 / 12, 250), 60)
    ptr, roots = np.concatenate([[0], np.cumsum(counts)]), np.arange(len(counts))
    a, g = torch.rand(int(ptr[-1]), FEATURES[1]), torch.rand(int(ptr[-1]), WIDTH)
    grams = InputGrams(counts, None)

    return {
        "dropout of all features, 10.5 M draws": (torchs_dropout, lambda: dropped(x, 0.5, masks)),
        "sparse product, 1.2 M arcs, 64 columns": (lambda: matrix @ h, lambda: product(matrix, h)),
        "distinct keys of 1.2 M arcs": (lambda: np.unique(keys), lambda: distinct_keys(keys)),
        "noise on 1.3 M coordinates": (noise_in_passes, lambda: add_noise(total, 2.0, rng=rng)),
        "Adam on 1.3 M weights": (theirs.step, lambda: adam.step(weights.grad)),
        "norms of the first layer, 250 trees": (
            lambda: root_norms(a, g, ptr),
            lambda: grams.norms(roots, (a.numpy(),), g.numpy(), ptr),
        ),
    }


def memory_ratio() -> float:
    """Product of the features with themselves: into fresh memory over into memory that is kept."""
    code = MEMORY.format(shape=FEATURES)
    took = [
        float(
            subprocess.run(
                [sys.executable, "-c", code, kind],
                cwd=ROOT,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for kind in ("plain", "kept")
    ]
    return took[0] / took[1]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    keep_freed_memory()
    rows: list[tuple[str, float, str]] = [
        ("a result of 42 MB in memory that is kept", memory_ratio(), "")
    ]
    for name, (plain, ours) in cases().items():
        timings = interleaved(
            {"plain": plain, "ours": ours}, rounds=rounds, clock=time.process_time
        )
        milliseconds = f"{1e3 * timings['ours'].median:.1f}"
        rows.append((name, ratios(timings, "plain", "ours"), milliseconds))
    lines = ["| what | x faster | ms |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {ratio:.1f} | {milliseconds} |" for name, ratio, milliseconds in rows]
    table = "\n".join(lines)
    print(table)
    values = {name: {"times_faster": ratio} for name, ratio, _ in rows}
    storage.write_json(ROOT / "benchmarks" / "full_batch.json", values)
    fill(ROOT / "docs" / "performance.md", "full_batch", table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
