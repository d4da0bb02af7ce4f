"""A release is made in a staging folder and moved in place by one rename.

RELEASES/STUDY/RUN appears with all its files, its fingerprint and its entry in the graph's ledger, or not at
all. A process that dies before the rename has released nothing; one that dies after it has released once, and
the next process uses that release.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpgnn.core import locks
from dpgnn.core.paths import run_folder
from dpgnn.core.storage import sha256_json, sync_folder
from dpgnn.run.ledger import STAGED, GraphLedger, private_folder, release_of
from dpgnn.run.totals import check_budgets

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.run.specification import RunInputs, Specification


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one release is kept.

    Attributes:
        name: STUDY/RUN.
        ledger: of its graph.
    """

    name: str
    ledger: GraphLedger

    @property
    def folder(self) -> Path:
        """Folder of the release."""
        return self.ledger.root / self.name

    @property
    def staged(self) -> Path:
        """Staging folder."""
        return self.ledger.root / STAGED / sha256_json(self.name)[:16]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the release's lock, so that no other process makes it.

        Raises:
            BusyError: another process holds it.
        """
        private_folder(self.staged.parent, self.ledger.root)
        with locks.exclusive(self.staged.with_suffix(".lock"), f"{self.name} is being released"):
            yield

    def begin(self, plan: Plan, inputs: RunInputs) -> None:
        """Make a folder for the files of a release by `plan`, with only its entry.

        Raises:
            ValueError: a budget of the graph does not allow it.
        """
        release = release_of(self.name, str(inputs.key["dataset"]), inputs.entry.method, plan)
        check_budgets(self.ledger, release)
        shutil.rmtree(self.staged, ignore_errors=True)  # left by a process that died
        private_folder(self.staged, self.ledger.root)
        self.ledger.write(self.staged, release)

    def commit(self) -> None:
        """Move the staged release in place; budgets are checked again, since others may have released.

        Raises:
            ValueError: a budget no longer allows it.
            OSError: the folder exists already.
        """
        release = self.ledger.read(self.staged)
        for path in self.staged.iterdir():
            path.chmod(0o600)
        sync_folder(self.staged)
        private_folder(self.folder.parent, self.ledger.root)
        with locks.waiting(self.ledger.root / ".lock"):
            check_budgets(self.ledger, release)
            os.rename(self.staged, self.folder)
        sync_folder(self.folder.parent)


def place_of(run: Specification, root: Path) -> Place:
    """Where the release of a run of a study is kept."""
    inputs = run.inputs
    name = f"{inputs.key['study']}/{run_folder(inputs.key)}"
    return Place(name=name, ledger=GraphLedger(root, inputs.structure_sha256))


def place_of_call(run: Specification, root: Path) -> Place:
    """Place of the ledger entry of a release by a call, whose files belong to the caller."""
    ledger = GraphLedger(root, run.inputs.structure_sha256)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = (
        f"api/{run.inputs.key['dataset']}/{run.inputs.entry.method}/{moment}-{secrets.token_hex(4)}"
    )
    return Place(name=name, ledger=ledger)
