from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpgnn.core import locks


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
        "from dpgnn.core import locks\n"
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


def test_a_held_folder_is_removed_at_the_end_and_those_of_killed_processes_before(
    tmp_path: Path,
) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from dpgnn.core import locks\n"
        f"with locks.held_folder(Path({str(tmp_path)!r}), 'a') as folder:\n"
        "    (folder / 'half').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    others = {"a.b.abcdefgh", "b.abcdefgh", "a.abc"}
    for name in others:
        (tmp_path / name).mkdir()
    assert locks.left_folders(tmp_path, "a") == [left]
    with locks.held_folder(tmp_path, "a") as first:
        assert {path.name for path in tmp_path.iterdir()} == others | {first.name}
        with locks.held_folder(tmp_path, "a") as second:  # a process at work keeps its own
            assert {path.name for path in tmp_path.iterdir()} == others | {first.name, second.name}
            assert locks.left_folders(tmp_path, "a") == []
    assert {path.name for path in tmp_path.iterdir()} == others


def test_where_folders_have_no_locks_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, kind: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", no_locks)
    (tmp_path / "a.abcdefgh").mkdir()
    with locks.held_folder(tmp_path, "a") as folder:
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["a.abcdefgh"]


def test_waiting_for_a_lock_ends_when_its_holder_does(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from dpgnn.core.locks import waiting\n"
        "with waiting(Path('x.lock')):\n    print('held', flush=True); time.sleep(0.5)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, env=environment
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with locks.waiting(tmp_path / "x.lock"):
            assert other.wait(timeout=10) == 0
    with locks.waiting(tmp_path / "x.lock"):
        pass
