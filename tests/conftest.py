"""Shared fixtures: small graphs written in the open, the mirror folder, a copy of the repository.

`--fast` leaves out tests/workflow, which runs whole studies, and what slow_tests.txt lists. `--measure`
writes that list: of all other functions, the quickest that take FAST_SECONDS together are not on it.
"""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, copy_repository, run_tool, two_community_graph
from xdist.scheduler import LoadFileScheduling

from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split

__all__ = ["copy_repository", "run_tool", "two_community_graph"]

WORKFLOW = "tests/workflow/"
SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")
FAST_SECONDS = 100
_seconds: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help=f"leave out what {SLOW_TESTS.name} lists")
    parser.addoption("--measure", action="store_true", help=f"write {SLOW_TESTS.name} anew")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is collected lives to the end: looking for garbage in it takes half of the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("fast"):
        return
    slow = {line.split()[0] for line in SLOW_TESTS.read_text(encoding="utf-8").splitlines()}

    def is_slow(item: pytest.Item) -> bool:
        return _function(item.nodeid) in slow or item.nodeid.startswith(WORKFLOW)

    config.hook.pytest_deselected(items=[item for item in items if is_slow(item)])
    items[:] = [item for item in items if not is_slow(item)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """With `--dist loadfile` the files that use contract.py go to one process, which makes each plan once."""
    return _WithContract(config, log) if config.getvalue("dist") == "loadfile" else None


class _WithContract(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid.partition("::")[0])


@cache
def _scope(file: str) -> str:
    """The file, or contract.py where the file imports it."""
    used = re.search(
        "^from contract import", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
    )
    return "tests/contract.py" if used else file


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[_function(report.nodeid)] += report.duration  # type: ignore[assignment]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("measure") and not hasattr(session.config, "workerinput"):
        quickest = sorted(
            (spent, name) for name, spent in _seconds.items() if not name.startswith(WORKFLOW)
        )
        spent_so_far = accumulate(spent for spent, _ in quickest)
        slow = sorted(
            f"{name} {spent:.1f}\n"
            for (spent, name), total in zip(quickest, spent_so_far)
            if total > FAST_SECONDS
        )
        SLOW_TESTS.write_text("".join(slow), encoding="utf-8")


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


@pytest.fixture(scope="session", autouse=True)
def _releases_of_calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Models that tests fit enter ledgers in a folder of the session, not in the working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpgnn.release.fit.RELEASES", tmp_path_factory.mktemp("releases"))
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A mirror folder with raw files; skips when there is none."""
    named = os.environ.get("DPGNN_MIRROR", "").split(os.pathsep)[0]
    for folder in (Path(named) if named else None, ROOT.parent / "shared" / "data"):
        if folder is not None and (folder / "MANIFEST.json").exists():
            return folder
    pytest.skip("no mirror folder: set DPGNN_MIRROR to a folder of raw files")


@pytest.fixture
def small_graph() -> Graph:
    """60 nodes in two communities."""
    return two_community_graph()


@pytest.fixture
def small_split(small_graph: Graph) -> Split:
    """30 training, 15 validation and 15 test nodes."""
    order = np.random.default_rng(1).permutation(small_graph.num_nodes)
    parts = [np.sort(part) for part in np.split(order, [30, 45])]
    return Split(train_idx=parts[0], val_idx=parts[1], test_idx=parts[2], inductive=False)
