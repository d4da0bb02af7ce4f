"""Deaths at chosen points and slow steps, for tests; the package itself has no such switch.

Python imports this file at its start where its folder is on PYTHONPATH. `fault.json` in the working folder
says what happens. `at` is "write" (die after `bytes` bytes of the `count`th file whose name begins like the
pattern `file`), "rename" (die before it is put in place), "renamed" (right after) or "download"; `whom` is
"group" (all processes of the group, as in a power cut) or "process". A death happens once: it turns
`fault.json` into `fault.done`. `pace.json` makes each training step take `step_seconds`, asks for a
checkpoint every `checkpoint_seconds` and notes each step in `steps.txt`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

FAULT, PACE = Path("fault.json").absolute(), Path("pace.json").absolute()


class Fault:
    def __init__(self, at, file, bytes=20, count=1, whom="group"):
        self.at, self.file, self.bytes, self.count, self.whom = at, file, bytes, count, whom

    def meets(self, at, name):
        """Whether this is the moment; counts the moments of its kind."""
        if at != self.at or not re.match(self.file, name.lstrip(".")):
            return False
        self.count -= 1
        return self.count == 0

    def die(self):
        FAULT.rename(FAULT.with_suffix(".done"))
        if self.whom == "group":
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingFile:
    """A file whose writer dies in the middle."""

    def __init__(self, file, fault):
        self.file, self.fault, self.left = file, fault, fault.bytes

    def write(self, data):
        if len(data) > self.left:
            self.file.write(data[: self.left])
            self.file.flush()
            self.fault.die()
        self.left -= len(data)
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.file.__exit__(*error)


class DyingOs:
    """`os` as a module of ours sees it."""

    def __init__(self, fault):
        self.fault = fault

    def fdopen(self, descriptor, *more, **named):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        file = os.fdopen(descriptor, *more, **named)
        return DyingFile(file, self.fault) if self.fault.meets("write", name) else file

    def replace(self, source, target):
        name = os.path.basename(target)
        if self.fault.meets("rename", name):
            self.fault.die()
        os.replace(source, target)
        if self.fault.meets("renamed", name):
            self.fault.die()

    def __getattr__(self, name):
        return getattr(os, name)


def patch_os(module):
    module.os = DyingOs(Fault(**json.loads(FAULT.read_text())))


def patch_download(module):
    fault = Fault(**json.loads(FAULT.read_text()))

    def dying_open(path, mode):
        file = open(path, mode)  # noqa: SIM115
        return DyingFile(file, fault) if fault.meets("download", Path(path).name) else file

    module.open = dying_open


def patch_loop(module):
    pace = json.loads(PACE.read_text())
    real = module.run_steps

    def run_steps(take_step, *more, **named):
        def take_slowly(step):
            take_step(step)
            time.sleep(pace["step_seconds"])
            with open(PACE.with_name("steps.txt"), "a") as file:
                file.write(f"{step}\n")

        named["checkpoint_seconds"] = pace["checkpoint_seconds"]
        return real(take_slowly, *more, **named)

    module.run_steps = run_steps


class PatchAfterImport(MetaPathFinder):
    """Changes a module of ours right after it was imported, before anyone uses it."""

    def __init__(self, patches):
        self.patches = patches

    def find_spec(self, name, path=None, target=None):
        patch = self.patches.pop(name, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_patch(module):
            execute(module)
            patch(module)

        spec.loader.exec_module = execute_and_patch
        return spec


patches = {}
if FAULT.exists():
    patches = {"dpgnn.core.storage": patch_os, "dpgnn.data.files.graph_files": patch_os}
    patches["dpgnn.data.raw.download"] = patch_download
if PACE.exists():
    patches["dpgnn.training.loop"] = patch_loop
if patches:
    sys.meta_path.insert(0, PatchAfterImport(patches))
