"""Checks that a study's releases, their copies in results/, and the ledgers are unchanged.

None of these files can be remade: another training on the same graph would be another release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from dpgnn.core.checksums import OF_FOLDER
from dpgnn.core.paths import RELEASES, Paths
from dpgnn.core.storage import DamagedFileError, json_text, read_json
from dpgnn.records.schema import read_record
from dpgnn.run.finished import FINGERPRINT
from dpgnn.run.ledger import BUDGETS, ENTRY, KEY, GraphLedger, entries
from dpgnn.run.record import OWN_ROWS, RUN_FILES
from dpgnn.run.specification import specify
from dpgnn.study.inputs import inputs_of
from dpgnn.study.study import RunKey, Study
from dpgnn.study.verify import Finding, Group, State, states
from dpgnn.study.wanted import Wanted

LOST = "a release cannot be made again: put back a copy of what is changed or missing in releases/"
_HASH = re.compile(b'"[0-9a-f]{64}"\n')


def verify_releases(study: Study, *, root: Path) -> Iterator[Finding]:
    """The state of every file of a study's releases, of their copies, and of all ledgers beside them.

    Guarantee: a changed byte in any file is found, except in a fingerprint of other code or another graph
    than present, and in own rows with a single copy; these are reported as having no checksum.

    Args:
        study: a study of releases; others have none.
        root: the folder of the workflow.
    """
    if study.config.randomness != "release":
        return
    seen: set[Path] = set()
    for key in study.keys:
        if study.entries[key.entry].mode != "nonprivate":
            for found in _of_run(study, key, root):
                seen.add(found.path)
                yield found
    yield from (found for found in _ledgers(root / RELEASES) if found.path not in seen)


def _of_run(study: Study, key: RunKey, root: Path) -> Iterator[Finding]:
    """One release and its copy; nothing for a run that is not made or that failed."""
    folder = root / RELEASES / study.name / key.folder
    copied = root / Paths().run(study.name, key.folder)
    if not folder.exists() and not _is_made(copied / RUN_FILES[-1]):
        return
    group = Group(
        listed=folder / OF_FOLDER,
        files=tuple(folder / name for name in RUN_FILES if name != OF_FOLDER),
    )
    if not group.listed.exists():  # every release has one
        yield Finding(path=group.listed, state="missing", group=group)
    yield from states(group)
    yield Finding(path=folder / ENTRY, state=_entry(folder, root / RELEASES), group=group)
    fingerprint = _fingerprint(study, key, folder, root)
    yield Finding(path=folder / FINGERPRINT, state=fingerprint, group=group)
    yield from _own_rows(folder, copied, group)
    one, other = (place / OF_FOLDER for place in (folder, copied))
    if one.exists() and other.exists() and one.read_bytes() != other.read_bytes():
        yield Finding(path=other, state="changed", group=group)


def _is_made(record: Path) -> bool:
    """Whether there is a record of a finished run; an unreadable record is reported elsewhere."""
    try:
        return record.exists() and read_record(record).status == "ok"
    except DamagedFileError:
        return False


def _entry(folder: Path, releases: Path) -> State:
    """The state of a release's entry, which is signed by the ledgers' key."""
    if not (folder / ENTRY).exists():
        return "missing"
    try:
        ledger = GraphLedger(releases, "")
        if not (releases / KEY).exists() or not _is_signed(ledger, folder / ENTRY):
            return "changed"
        entry = ledger.read(folder)
    except (DamagedFileError, ValueError, TypeError, KeyError):
        return "changed"
    # the entry of another release does not count
    return "ok" if entry.name == str(folder.relative_to(releases)) else "changed"


def _fingerprint(study: Study, key: RunKey, folder: Path, root: Path) -> State:
    """The state of a fingerprint, recomputed if configuration, code and graph are those of the release."""
    path = folder / FINGERPRINT
    if not path.exists():
        return "missing"
    if not _HASH.fullmatch(text := path.read_bytes()):
        return "changed"
    try:
        if not Wanted(study).made(read_json(folder / RUN_FILES[-1]), key):
            return "no checksum"
        run = specify(inputs_of(study, key, Paths(results=root / Paths().results)))
        if run.fingerprint == json.loads(text):
            return "ok"
        ledger = GraphLedger(root / RELEASES, run.inputs.structure_sha256)
        same = ledger.signed(folder / ENTRY)["graph"] == ledger.graph
    except (DamagedFileError, ValueError, KeyError, AttributeError):
        return "no checksum"  # a graph, a split or a record is missing, or reported by itself
    return "changed" if same else "no checksum"


def _own_rows(folder: Path, copied: Path, group: Group) -> Iterator[Finding]:
    """Own rows of nodes have no checksum in a list; the release and its copy must be equal."""
    one, other = folder / OWN_ROWS, copied / OWN_ROWS
    if not one.exists() and not other.exists():
        return
    if not one.exists():
        yield Finding(path=one, state="missing", group=group)
    elif not other.exists() or not (copied / RUN_FILES[-1]).exists():
        yield Finding(path=one, state="no checksum", group=group)
    else:
        same = one.read_bytes() == other.read_bytes()
        for path in (one, other):  # it is not known which of the two changed
            yield Finding(path=path, state="ok" if same else "changed", group=group)


def _ledgers(releases: Path) -> Iterator[Finding]:
    """The key, declared budgets, and entries of other releases in the same folder."""
    if not releases.exists():
        return
    group = Group(listed=releases / KEY, files=(releases / KEY,))
    key = releases / KEY
    if not key.exists():
        yield Finding(path=key, state="missing", group=group)
        return
    ledger = GraphLedger(releases, "")
    signed = {path: _is_signed(ledger, path) for path in entries(releases)}
    signed |= {
        path: _is_signed(ledger, path) for path in sorted((releases / BUDGETS).glob("*.json"))
    }
    # if the key fits no entry, it is the key that changed
    fits = any(signed.values()) or not signed
    yield Finding(path=key, state="ok" if fits else "changed", group=group)
    for path, whole in signed.items():
        yield Finding(path=path, state="ok" if whole else "changed", group=group)


def _is_signed(ledger: GraphLedger, path: Path) -> bool:
    try:
        ledger.signed(path)
    except (DamagedFileError, OSError):
        return False
    return path.read_bytes() == json_text(read_json(path)).encode()
