"""A step of a user's own module, side by side: `python -m benchmarks.own_network`, one thread.

Encoder, one PyG convolution, decoder at shape A: our private step; the module's own step without privacy on
the same trees as one graph, whole and in chunks; torch.func's vmap(grad) over trees of one shape, at its best
chunk; Opacus' GradSampleModule on trees padded to one size. Variants take turns in one process and are timed
in processor time. Writes a JSON file and a table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv, GCNConv, SAGEConv

from benchmarks._page import fill
from benchmarks._timing import interleaved, peak_extra_bytes, ratios
from benchmarks._workloads import arcs
from dpgnn.models.modules import ModuleConfig, ModuleNetwork
from dpgnn.models.trees import Trees, trees_of
from dpgnn.samplers.published import Published
from dpgnn.training.chunks import chunks_of
from dpgnn.training.clipping import Clipping, global_clipping
from dpgnn.training.gradients import RootGradients
from dpgnn.training.modules.batches import tree_batch
from dpgnn.training.modules.choice import choose
from dpgnn.training.modules.gradients import add_clipped, formed_by_vmap
from dpgnn.training.noise import add_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig

FEATURES, WIDTH, CLASSES, SIZE, BATCH = 128, 256, 40, 8, 10_000
NAIVE_PART = 10  # naive variants run on a tenth of the batch and are scaled
BOUND = 4.5
CHUNK_ROWS = 4096
CONVS = {
    "GCNConv": lambda: GCNConv(WIDTH, WIDTH),
    "SAGEConv": lambda: SAGEConv(WIDTH, WIDTH),
    "GATv2Conv": lambda: GATv2Conv(WIDTH, WIDTH // 4, heads=4),
}
GOALS = (("own step", 1.6), ("vmap", 6.0), ("Opacus", 14.0))


class Net(nn.Module):
    """128 -> 256 tanh, a convolution 256 -> 256 tanh, 256 -> 40."""

    def __init__(self, conv: str) -> None:
        super().__init__()
        self.encode, self.conv = nn.Linear(FEATURES, WIDTH), CONVS[conv]()
        self.decode = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """A row of logits for each node."""
        h = torch.tanh(self.encode(x))
        return self.decode(torch.tanh(self.conv(h, edge_index)))


class Padded(nn.Module):
    """The same layers on padded trees, as Opacus wants them: a row for every node, as in `Net`."""

    def __init__(self, conv: str) -> None:
        super().__init__()
        self.conv = conv
        self.encode, self.decode = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.left = nn.Linear(WIDTH, WIDTH)
        if conv != "GCNConv":
            self.right = nn.Linear(WIDTH, WIDTH, bias=conv == "GATv2Conv")
        if conv == "GATv2Conv":
            self.att = nn.ModuleList(nn.Linear(WIDTH // 4, 1, bias=False) for _ in range(4))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Logits of the roots; weight: (num_roots, size, size), how each row weighs the others."""
        h = torch.tanh(self.encode(x))
        if self.conv == "GCNConv":
            mixed = self.left(weight @ h)
        elif self.conv == "SAGEConv":
            mixed = self.left(weight @ h) + self.right(h)
        else:
            left, right = (f(h).unflatten(-1, (4, -1)) for f in (self.left, self.right))
            met = F.leaky_relu(right[:, :, None] + left[:, None], 0.2)
            score = torch.cat([att(met[:, :, :, i]) for i, att in enumerate(self.att)], dim=-1)
            score = torch.where(weight[..., None] != 0, score, -1e30)
            share = torch.softmax(score, dim=2)[..., None]
            mixed = (share * left[:, None]).sum(dim=2).flatten(2)
        return self.decode(torch.tanh(mixed))[:, 0]


class Work:
    """Shape A: a graph of the size of ogbn-arxiv, one hop, K = 7, lists of at most 7."""

    def __init__(self, conv: str, batch: int = BATCH) -> None:
        num_nodes, rng = 169_343, np.random.default_rng(0)
        train = np.sort(rng.choice(num_nodes, 90_941, replace=False))
        sampler = Published(max_degree=7, num_hops=1, max_subgraph_size=SIZE)
        sample = sampler.sample(
            arcs(num_nodes, 1_170_000), num_nodes=num_nodes, train_idx=train, rng=rng
        )
        self.x = rng.standard_normal((num_nodes, FEATURES), dtype=np.float32)
        y = rng.integers(0, CLASSES, num_nodes)
        self.trees: Trees = trees_of(sample, y, num_hops=1, conv="sage")
        torch.manual_seed(0)
        self.conv, self.module = conv, Net(conv)
        config = ModuleConfig(num_features=FEATURES, num_outputs=CLASSES, num_hops=1)
        self.network = ModuleNetwork(config, copy.deepcopy(self.module))
        self.clipping: Clipping = global_clipping(BOUND)
        wanted = np.random.default_rng(1).choice(self.trees.num_roots, batch, replace=False)
        self.roots = np.sort(wanted)
        self.features, self.y = torch.from_numpy(self.x), torch.from_numpy(self.trees.y)


def ours(work: Work) -> Any:
    """Clipped sum, noise, Adam."""
    gradients = RootGradients(work.network, work.x, work.trees, clipping=work.clipping)
    parameters = work.network.initial(rng=np.random.default_rng(0))
    optimizer, rng = (
        Optimizer(OptimizerConfig(lr=1e-4), parameters, 10**6),
        np.random.default_rng(0),
    )

    def step() -> None:
        total = gradients(parameters, work.roots)
        optimizer.step(add_noise(total, 1.0, rng=rng) / len(work.roots))

    return step


def own_step(work: Work, rows: int) -> Any:
    """The module's own step: the trees as one graph, cross-entropy, backward, torch's Adam."""
    module, trees = copy.deepcopy(work.module), work.trees
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        for chunk in chunks_of(trees, work.roots, rows):
            batch = tree_batch(trees, chunk)
            out = module(work.features[batch.node], batch.edge_index)
            logits = out[torch.from_numpy(batch.ptr[:-1])]
            loss = F.cross_entropy(logits, work.y[torch.from_numpy(chunk)], reduction="sum")
            (loss / len(work.roots)).backward()
        optimizer.step()

    return step


def vmap_step(work: Work, chunk: int) -> Any:
    """vmap(grad) over trees of one shape, clipped and added; noise and Adam; on a tenth of the batch."""
    roots, trees = work.roots[::NAIVE_PART], work.trees
    module = work.network.module.train()
    parameters = work.network.initial(rng=np.random.default_rng(0))
    optimizer, rng = (
        Optimizer(OptimizerConfig(lr=1e-4), parameters, 10**6),
        np.random.default_rng(0),
    )
    groups = defaultdict(list)
    for root in roots:
        groups[int(trees.row_ptr[root + 1] - trees.row_ptr[root])].append(int(root))
    parts = work.clipping.parts(work.network)

    def step() -> None:
        total = torch.zeros_like(parameters)
        sums, named = work.network.views(total), work.network.views(parameters)
        for members in groups.values():
            for first in range(0, len(members), chunk):
                some = np.array(members[first : first + chunk])
                batch = tree_batch(trees, some)
                x = work.features[batch.node].unflatten(0, (len(some), -1))
                edges = batch.edge_index[:, : int(batch.edge_ptr[1])]
                found, _ = formed_by_vmap(
                    work.network, module, named, x, edges, work.y[torch.from_numpy(some)]
                )
                flat = {name: value.flatten(1) for name, value in found.items()}
                add_clipped(dict(flat), len(some), parts, sums, torch.float32)
        optimizer.step(add_noise(total, 1.0, rng=rng) / len(roots))

    return step


def opacus_step(work: Work, chunk: int = 500) -> Any:
    """GradSampleModule on padded trees, clipped and added; noise and Adam; on a tenth of the batch."""
    from opacus import GradSampleModule

    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    roots, trees = work.roots[::NAIVE_PART], work.trees
    torch.manual_seed(0)
    module = GradSampleModule(Padded(work.conv), loss_reduction="sum")
    tensors = [p for _, p in module.named_parameters()]
    flat = torch.zeros(sum(p.numel() for p in tensors))
    optimizer, rng = Optimizer(OptimizerConfig(), flat, 10**6), np.random.default_rng(0)
    sizes = np.diff(trees.row_ptr)[roots]
    inside = np.arange(SIZE) < sizes[:, None]
    first = trees.row_ptr[roots][:, None]
    node = torch.from_numpy(trees.node[first + np.where(inside, np.arange(SIZE), 0)])
    real = torch.from_numpy(inside.astype(np.float32))
    # the root reads its list; the others read themselves, or nobody where a layer has no self-loops
    loops = work.conv != "SAGEConv"
    weight = torch.eye(SIZE).repeat(len(roots), 1, 1) * float(loops)
    real[:, 0] = float(loops)
    weight[:, 0] = real / real.sum(dim=1, keepdim=True).clamp(min=1.0)
    y = work.y[torch.from_numpy(roots)]

    def step() -> None:
        total = torch.zeros_like(flat)
        for start in range(0, len(roots), chunk):
            part = slice(start, start + chunk)
            logits = module(work.features[node[part]], weight[part])
            F.cross_entropy(logits, y[part], reduction="sum").backward()
            samples = [p.grad_sample.flatten(1) for p in tensors]
            norms = torch.stack([s.square().sum(dim=1) for s in samples]).sum(dim=0).sqrt()
            factors = torch.clamp(BOUND / norms, max=1.0)
            total += torch.cat([factors @ s for s in samples])
            module.zero_grad(set_to_none=True)
        optimizer.step(add_noise(total, 1.0, rng=rng) / len(roots))

    return step


def measure(conv: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of processor time, and ratios to our step, of every variant."""
    work = Work(conv)
    assert choose(work.network).way == "rows"
    steps = {
        "ours": ours(work),
        "own step, whole": own_step(work, 10**9),
        "own step, chunks": own_step(work, CHUNK_ROWS),
    }
    tried = {f"vmap, chunks of {chunk}": vmap_step(work, chunk) for chunk in (16, 32, 64)}
    found = interleaved(tried, rounds=2, clock=time.process_time)
    best = min(found, key=lambda name: found[name].median)
    steps |= {best: tried[best], "Opacus, chunks of 500": opacus_step(work)}
    scale = {best: float(NAIVE_PART), "Opacus, chunks of 500": float(NAIVE_PART)}
    timings = interleaved(steps, rounds=rounds, scale=scale, clock=time.process_time)
    rows = int(np.diff(work.trees.row_ptr)[work.roots].sum())
    return {
        "rows": rows, "num_parameters": work.network.num_parameters, "rounds": rounds,
        "load_average": round(os.getloadavg()[0], 1),
        "variants": {
            name: {
                "milliseconds": round(1e3 * timing.median, 1),
                "of_ours": round(ratios(timings, name, "ours"), 3),
                "ours_of_it": round(ratios(timings, "ours", name), 3),
            }
            for name, timing in timings.items()
        },
    }  # fmt: skip


def memory_of(conv: str, batch: int) -> int:
    """Peak resident bytes of our step above the level before it; this process is fresh."""

    def prepare() -> Any:
        work = Work(conv, batch)
        step, roots = ours(work), work.roots
        # a first small step loads what is loaded once, whatever the batch
        work.roots = roots[:1000]
        step()
        work.roots = roots
        return step

    return peak_extra_bytes(prepare, repeats=80_000 // batch)


def goals(held: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """(goal, bound, measured, met)."""
    found = []
    for conv, shape in held["convs"].items():
        variants = shape["variants"]
        for start, bound in GOALS:
            names = [name for name in variants if name.startswith(start)]
            if start == "own step":
                for name in names:
                    value = variants[name]["ours_of_it"]
                    found.append((f"{conv}: ours / {name}", f"<= {bound:g}", value, value <= bound))
            else:
                value = min(variants[name]["of_ours"] for name in names)
                found.append((f"{conv}: {names[0]} / ours", f">= {bound:g}", value, value >= bound))
        small, large = held["memory"][conv]
        found.append(
            (f"{conv}: peak MB at m = 40,000", f"<= {small + 8:.0f}", large, large <= small + 8)
        )
    return found


def table(held: dict[str, Any]) -> str:
    """The measured part of the page."""
    lines = ["| layer | step | ms | x of ours |", "| --- | --- | ---: | ---: |"]
    for conv, shape in held["convs"].items():
        for name, row in shape["variants"].items():
            lines.append(f"| {conv} | {name} | {row['milliseconds']:.0f} | {row['of_ours']:.2f} |")
    lines += ["", "| goal | bound | measured | met |", "| --- | --- | ---: | --- |"]
    for goal, bound, value, met in goals(held):
        lines.append(f"| {goal} | {bound} | {value:.2f} | {'yes' if met else '**no**'} |")
    loads = ", ".join(str(shape["load_average"]) for shape in held["convs"].values())
    rounds = next(iter(held["convs"].values()))["rounds"]
    lines += ["", f"Medians of {rounds} rounds; load averages {loads}; torch {held['torch']}."]
    return "\n".join(lines)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--conv", action="append", choices=list(CONVS), help="all when none is given"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/own_network.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/performance.md"))
    parser.add_argument("--memory-of", nargs=2, metavar=("CONV", "M"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.memory_of:
        print(memory_of(args.memory_of[0], int(args.memory_of[1])))
        return 0
    held: dict[str, Any] = {"convs": {}, "memory": {}}
    if args.json.exists():
        held = json.loads(args.json.read_text(encoding="utf-8"))
    held["torch"] = torch.__version__
    for conv in args.conv or CONVS:
        print(conv, file=sys.stderr, flush=True)
        held["convs"][conv] = measure(conv, args.rounds)
        peaks = []
        for size in (BATCH, 4 * BATCH):
            command = [
                sys.executable,
                "-m",
                "benchmarks.own_network",
                "--memory-of",
                conv,
                str(size),
            ]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks.append(round(int(answer.stdout.split()[-1]) / 2**20, 1))
        held["memory"][conv] = peaks
        args.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        fill(args.page, "own_network", table(held))
    missed = [goal for goal, _, _, met in goals(held) if not met]
    print("goals missed: " + ("; ".join(missed) or "none"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
