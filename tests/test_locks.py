from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpgnn import locks


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        locks.exclusive(tmp_path / "work" / "run.lock"),
        pytest.raises(locks.BusyError, match=r"another run works in this folder \(process \d"),
        locks.exclusive(tmp_path / "work" / "run.lock"),
    ):
        pass
    assert not (tmp_path / "work" / "run.lock").exists()
    with locks.exclusive(tmp_path / "work" / "run.lock"):
        pass


def test_looking_at_a_lock_neither_takes_nor_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    assert not locks.is_held(path)
    assert not path.exists()
    path.touch()
    assert not locks.is_held(path)
    with locks.exclusive(path):
        assert locks.is_held(path)
        assert locks.holder(path) == os.getpid()
        path.write_text("1 on another-machine")
        assert locks.holder(path) is None
    assert locks.holder(path) is None


def test_the_lock_lives_as_long_as_any_child_of_a_killed_holder(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    code = (
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "from dpgnn import locks\n"
        f"with locks.exclusive(Path({str(lock)!r})) as held:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=(held,))\n"
        "    print(child.pid, flush=True)\n"
        "    child.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    with pytest.raises(locks.BusyError):
        locks.exclusive(lock).__enter__()
    subprocess.run(["kill", "-9", str(child)], check=True)
    for _ in range(100):
        try:
            with locks.exclusive(lock):
                break
        except locks.BusyError:
            time.sleep(0.05)
    else:
        pytest.fail("the lock outlived its last holder")
