from __future__ import annotations

import importlib.util
import re
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def generate(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_envs", repository / "envs" / "generate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_environment_files_match_the_lock(generate: ModuleType) -> None:
    for name, text in generate.files().items():
        assert (generate.HERE / name).read_text() == text, "run make env-files"


def test_the_lock_pins_everything_exactly(generate: ModuleType) -> None:
    pins = generate.pins()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", pin) for pin in pins)
    assert "torch==2.13.0" in pins
    names = [pin.split("==")[0].lower() for pin in pins]
    assert len(set(names)) == len(names)


def test_the_environment_in_use_is_the_lock(generate: ModuleType) -> None:
    installed = {
        re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(): dist.version.split("+")[0]
        for dist in distributions()
    }
    for pin in generate.pins():
        name, version = pin.split("==")
        assert installed.get(re.sub(r"[-_.]+", "-", name).lower()) == version, pin


def test_the_site_pins_what_the_other_lock_leaves_open(generate: ModuleType) -> None:
    pytest.importorskip("sphinx", reason="the site's packages (envs/docs.lock) are not installed")
    installed = {
        re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(): dist.version
        for dist in distributions()
    }
    site = [pin.split("==") for pin in generate.pins(generate.HERE / "docs.lock")]
    for name, version in site:
        assert installed.get(re.sub(r"[-_.]+", "-", name).lower()) == version, name
    assert not {name.lower() for name, _ in site} & {
        pin.split("==")[0].lower() for pin in generate.pins()
    }


def test_the_extra_for_clusters_pins_what_the_other_locks_leave_open(generate: ModuleType) -> None:
    pins = generate.pins(generate.HERE / "cluster.lock")
    assert all(re.fullmatch(r"[a-z-]+==[0-9.]+", pin) for pin in pins)
    names = {pin.split("==")[0] for pin in pins}
    assert {"dask", "distributed", "dask-jobqueue"} <= names
    known = generate.pins() + generate.pins(generate.HERE / "docs.lock")
    assert not names & {pin.split("==")[0].lower() for pin in known}
    pytest.importorskip("distributed", reason="Dask is not installed: make setup EXTRAS=cluster")
    installed = {dist.metadata["Name"].lower(): dist.version for dist in distributions()}
    for pin in pins:
        name, version = pin.split("==")
        assert installed.get(name) == version, pin
