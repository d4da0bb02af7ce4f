"""Seconds to calibrate noise for one budget; the promise is 20 s up to 13 changed roots and 90 s up to 57.

Run: python -m benchmarks.calibration [--rounds 3] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

from dpgnn.accountants import calibration, composition
from dpgnn.accountants.events import Event, PoissonRoots, compose
from dpgnn.core import storage

# (name, roots N, batch m, d_plus, d_minus, steps, limit in seconds)
CASES = (
    ("d = 8, arxiv", 90941, 10000, 8, 7, 669, 20.0),
    ("d = 11, products", 196615, 10000, 11, 10, 543, 20.0),
    ("d = 13, two layers", 90941, 20000, 13, 12, 265, 20.0),
    ("d = 13, mag", 629571, 10000, 13, 12, 9000, 20.0),
    ("d = 25, replaced record", 90941, 20000, 25, 25, 265, 90.0),
    ("d = 57, K = 7, r = 2", 90941, 20000, 57, 56, 300, 90.0),
)
EPSILONS = (1.0, 4.0, 12.0)


def calibrate(case: tuple[str, int, int, int, int, int, float], epsilon: float) -> float:
    """Noise multiplier for one budget, from an empty memory and a poor first guess."""
    _, population, batch, plus, minus, steps, _ = case
    relation: Any = "add-remove" if plus != minus else "replace-one"

    def build(noise: float) -> Event[Any]:
        event: Event[Any] = PoissonRoots(
            relation=relation,
            noise_stddev=noise,
            clipping_norm=1.0,
            sampling_probability=batch / population,
            d_plus=plus,
            d_minus=minus,
        )
        return compose(event, steps)

    composition.clear_cache()
    noise = calibration.calibrate_noise(
        build,
        target_epsilon=epsilon,
        delta=1 / (10 * population),
        relation=relation,
        start=float(plus),
    ).value
    return noise / (2 * plus)


def main() -> int:
    """Time every case in turn, round after round, and say whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    seconds: dict[tuple[str, float], list[float]] = {}
    noise: dict[tuple[str, float], float] = {}
    for _ in range(args.rounds):
        for case in CASES:
            for epsilon in EPSILONS:
                began = time.perf_counter()
                noise[case[0], epsilon] = calibrate(case, epsilon)
                seconds.setdefault((case[0], epsilon), []).append(time.perf_counter() - began)
    rows: list[dict[str, Any]] = []
    kept = True
    for case in CASES:
        for epsilon in EPSILONS:
            values = seconds[case[0], epsilon]
            kept = kept and max(values) < case[-1]
            rows.append(
                {
                    "case": case[0],
                    "epsilon": epsilon,
                    "noise_multiplier": noise[case[0], epsilon],
                    "seconds_median": sorted(values)[len(values) // 2],
                    "seconds_max": max(values),
                    "limit": case[-1],
                }
            )
            row = rows[-1]
            print(
                f"{row['case']:<26} eps {epsilon:>4g}  lambda {row['noise_multiplier']:>9.5f}  "
                f"median {row['seconds_median']:6.2f} s  max {row['seconds_max']:6.2f} s  "
                f"limit {case[-1]:g} s"
            )
    assert all(math.isfinite(row["noise_multiplier"]) for row in rows)
    print("within the limits" if kept else "OVER THE LIMITS")
    if args.out is not None:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "rounds": args.rounds}
        storage.write_json(args.out, {"platform": machine, "rows": rows})
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
