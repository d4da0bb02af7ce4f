from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import TOY

from dpgnn import driver
from dpgnn.study import resolve

STUDY = resolve(TOY)


def test_a_study_is_found_by_name_or_file(repository: Path) -> None:
    assert driver.study_file("quick", root=repository) == Path("config.yaml")
    found = driver.study_file("baselines", root=repository)
    assert found == Path("workflow/studies/baselines.yaml")
    assert driver.study_file("config.yaml", root=repository) == Path("config.yaml")
    with pytest.raises(ValueError, match=r"study must be a YAML file or one of quick, .*baselines"):
        driver.study_file("nope", root=repository)


def test_estimate_and_status_read_what_is_there(tmp_path: Path) -> None:
    assert "no time measured yet" in driver.estimate(STUDY, root=tmp_path)
    runs = tmp_path / "results" / "studies" / "quick" / "runs"
    done, failed, *_ = STUDY.keys
    (runs / done.folder).mkdir(parents=True)
    (runs / done.folder / "record.json").write_text("{}")
    (runs / done.folder / "resources.json").write_text(json.dumps({"seconds": 7200.0}))
    log = tmp_path / "logs" / "train" / "quick" / f"{failed.folder}.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1\ndpgnn train: error: x must be finite\n")
    text = driver.status(STUDY, root=tmp_path)
    assert "3 runs, 1 done, 0 running, 1 failed, 1 left" in text
    assert "x must be finite" in text
    assert f"{done.entry}: 1 runs x 7200.0 s" in driver.estimate(STUDY, root=tmp_path)
    assert "guessed: this entry never ran here" in driver.estimate(STUDY, root=tmp_path)


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        driver.exclusive(tmp_path / "work" / "run.lock"),
        pytest.raises(driver.BusyError, match=r"another run works in this folder \(process \d"),
        driver.exclusive(tmp_path / "work" / "run.lock"),
    ):
        pass
    with driver.exclusive(tmp_path / "work" / "run.lock"):
        pass


def test_the_lock_lives_as_long_as_any_child_of_a_killed_holder(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    code = (
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "from dpgnn import driver\n"
        f"with driver.exclusive(Path({str(lock)!r})) as held:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=(held,))\n"
        "    print(child.pid, flush=True)\n"
        "    child.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    with pytest.raises(driver.BusyError):
        driver.exclusive(lock).__enter__()
    subprocess.run(["kill", "-9", str(child)], check=True)
    for _ in range(100):
        try:
            with driver.exclusive(lock):
                break
        except driver.BusyError:
            time.sleep(0.05)
    else:
        pytest.fail("the lock outlived its last holder")
