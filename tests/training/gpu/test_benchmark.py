"""`python -m benchmarks.gpu`: its checks can fail, its timed parts run, its page says what was measured."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch


@pytest.fixture
def gpu_benchmark(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository))
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("benchmarks.gpu")


def small(benchmark: ModuleType) -> Any:
    checks = importlib.import_module("benchmarks._gpu_checks")
    network, x, trees, _ = checks.problem("dense", num_roots=12)
    clipping = benchmark.uniform_clipping(network, "group", 0.2)
    return benchmark.Workload(name="small", network=network, x=x, trees=trees, batch_size=8,
                              clipping=clipping, pad_to=5)  # fmt: skip


def test_a_wrong_sum_fails_and_the_page_says_so(gpu_benchmark, monkeypatch, tmp_path, capsys):
    checks = importlib.import_module("benchmarks._gpu_checks")
    whole = checks.plain_sum
    monkeypatch.setattr(checks, "plain_sum", lambda *given: whole(*given) * 1.01)
    monkeypatch.setattr(gpu_benchmark, "all_checks",
                        lambda: {"sums": lambda: checks.sums_of("dense")})  # fmt: skip
    assert gpu_benchmark.main(["--checks-only", "--out", str(tmp_path)]) == 1
    result = json.loads((tmp_path / "gpu.json").read_text())
    assert [each["ok"] for each in result["checks"]] == [False] * 6
    assert result["simulated"] is not torch.cuda.is_available()
    assert result["would_do"]
    assert "**no**" in (tmp_path / "gpu.md").read_text()
    monkeypatch.setattr(checks, "plain_sum", whole)
    assert gpu_benchmark.main(["--checks-only", "--out", str(tmp_path)]) == 0


def test_the_timed_parts_run_on_the_simulated_device(gpu_benchmark, monkeypatch):
    work, once = small(gpu_benchmark), []

    def one_call(step: Any, **counts: int) -> float:
        step()
        once.append(step)
        return 1.0

    monkeypatch.setattr(gpu_benchmark, "milliseconds", one_call)
    result: dict[str, Any] = {"timings": {}, "not_measured": {}}
    with gpu_benchmark.simulated_cuda():
        gpu_benchmark.measure(result, gpu_benchmark.gpu_steps, work)
        monkeypatch.setattr(gpu_benchmark, "OTHERS", ("small",))
        monkeypatch.setattr(gpu_benchmark, "SHAPES", {"small": lambda: work})
        gpu_benchmark.measure(result, gpu_benchmark.others, work)
    for part in (gpu_benchmark.host, gpu_benchmark.cpu_step):
        gpu_benchmark.measure(result, part, work)
    assert result["not_measured"] == {}
    named = {
        "private",
        "twin",
        "private, no graphs",
        "cpu",
        "small: twin",
        "host: shape and pieces",
    }
    assert named <= result["timings"].keys()
    (ratio, _) = gpu_benchmark.goals(result["timings"])[:2]
    assert ratio["ratio"] == 1.0
    assert ratio["met"]


def test_time_that_is_up_is_written_down(gpu_benchmark, monkeypatch, tmp_path, capsys):
    def late() -> Any:
        raise gpu_benchmark.TimeUp

    monkeypatch.setattr(gpu_benchmark, "all_checks", lambda: {"late": late})
    gpu_benchmark.main(["--out", str(tmp_path), "--seconds", "77"])
    result = json.loads((tmp_path / "gpu.json").read_text())
    assert result["not_measured"] == {"the rest": "77 seconds were over"}


def test_it_needs_torch_numpy_scipy_numba_and_pyarrow_alone(repository: Path) -> None:
    """What the engine imports by itself, in a process of its own."""
    # a module that is None cannot be imported
    text = (
        "import sys\n"
        "absent = ('polars', 'dp_accounting', 'snakemake', 'dvc', 'pydantic', 'pandas', 'yaml', "
        "'opacus', 'randomgen', 'sklearn', 'torch_geometric', 'triton')\n"
        "sys.modules |= dict.fromkeys(absent)\n"
        "import benchmarks.gpu, dpgnn.accountants.calibration\n"
        "print('all there')"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=repository, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert done.stdout.strip() == "all there"


def test_wheels_are_the_locks_versions_and_too_many_are_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(repository))
    wheels = importlib.import_module("benchmarks.gpu_wheels")
    pinned = (repository / "envs" / "cpu.lock").read_text().split()
    assert {pin.split("==")[0] for pin in wheels.wanted()} >= {"randomgen", "opacus", "mpmath"}
    assert set(wheels.wanted()) <= set(pinned)
    assert wheels.command(tmp_path, "3.12")[-len(wheels.wanted()) :] == wheels.wanted()
    (tmp_path / "a.whl").write_bytes(b"0" * 1000)
    assert wheels.report(tmp_path) == 0
    monkeypatch.setattr(wheels, "LARGEST_MB", 0.0001)
    assert wheels.report(tmp_path) == 1


def test_the_page_shows_the_kept_result_of_a_card_and_no_other_is_put_there(
    gpu_benchmark, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page, kept = repository / "docs" / "performance.md", repository / "benchmarks" / "gpu.json"
    result = json.loads(kept.read_text())
    for folder in ("docs", "benchmarks"):
        (tmp_path / folder).mkdir()
    copied = tmp_path / "docs" / "performance.md"
    copied.write_text("before\n<!-- gpu: begin -->\nold\n<!-- gpu: end -->\nafter\n")
    monkeypatch.chdir(tmp_path)
    assert gpu_benchmark.main(["--fill", str(kept)]) == 0
    assert (tmp_path / "benchmarks" / "gpu.json").read_bytes() == kept.read_bytes()
    shown = copied.read_text().removeprefix("before\n").removesuffix("after\n")
    assert shown in page.read_text()
    assert f"{result['timings']['private']:.3f}" in shown

    simulated = tmp_path / "simulated.json"
    simulated.write_text(json.dumps(result | {"simulated": True}))
    with pytest.raises(ValueError, match="simulated device"):
        gpu_benchmark.main(["--fill", str(simulated)])
    assert copied.read_text().endswith(f"{shown}after\n")


def test_the_page_tells_the_record_of_the_machine_with_a_slower_host(repository):
    page = (repository / "docs" / "performance.md").read_text(encoding="utf-8")
    record = (repository / "benchmarks" / "gpu_slower_host.json").read_text(encoding="utf-8")
    times = json.loads(record)["timings"]
    four = times["steps an hour, 4 at a time"]
    assert f"took {times['cpu']:.0f} ms" in page
    assert f"took {times['private']:.2f} ms there, its twin {times['twin']:.2f}" in page
    assert f"a ratio of {times['private'] / times['twin']:.2f}" in page
    assert f"{four / times['steps an hour, 1 at a time']:.1f} times as many" in page
    assert f"a step every {3.6e6 / four:.2f} ms" in page
