"""A simulated GPU: the library's own GPU code on the CPU, by CUDA's rules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def simulated(repository: Path) -> ModuleType:
    """The module `benchmarks/_simulated_cuda.py`, wherever another package of that name may be."""
    name, path = "simulated_cuda_of_benchmarks", repository / "benchmarks" / "_simulated_cuda.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpu(simulated: ModuleType) -> Iterator[Any]:
    """The simulated GPU, which counts waits, replays of graphs and operations."""
    with simulated.simulated_cuda() as state:
        yield state
