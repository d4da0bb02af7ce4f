"""A model from its bundle."""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.storage import read_json
from dpgnn.release.bundle import (
    OWN_IDS,
    OWN_ROWS,
    STATE,
    check_files,
    read_certificate,
    read_tensors,
)
from dpgnn.release.certificate import record_in
from dpgnn.release.model import Model
from dpgnn.release.released import Names


def load(folder: str | Path) -> Model:
    """Read a bundle that `save` wrote; needs no graph.

    Args:
        folder: the bundle; its checksums are compared, `dpgnn verify` checks more.

    Raises:
        ValueError: a file is missing, or not the one that was made.
    """
    folder = Path(folder)
    stated = read_certificate(folder)
    check_files(folder, stated)
    ids = read_json(folder / OWN_IDS) if (folder / OWN_IDS).exists() else []
    names = {kind: tuple(found) for kind, found in stated["names"].items()}
    return Model(
        record=record_in(stated),
        state=read_tensors(folder / STATE),
        kept=read_tensors(folder / OWN_ROWS) if (folder / OWN_ROWS).exists() else {},
        names=Names(**names, ids=tuple(ids)),
    )
