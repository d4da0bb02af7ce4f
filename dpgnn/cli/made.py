"""Checks that the graph and the split of a run exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgnn.core.checks import require

if TYPE_CHECKING:
    from dpgnn.core.paths import Paths
    from dpgnn.study.study import RunKey, Study


def require_made(study: Study, key: RunKey, paths: Paths, purpose: str) -> None:
    """Raise unless the graph and the split of a run exist.

    Args:
        purpose: what they are for: "attack" or "audit".

    Raises:
        ValueError: one is missing; the message names it and the command that makes it.
    """
    for path in (
        paths.graph(key.dataset) / "graph.json",
        paths.split(key.dataset, key.setting, key.repeat),
    ):
        require(
            path.exists(), f"{path}", f"exist to {purpose} {key.folder}", "nothing there",
            f"run `dpgnn run {study.name} -- --until split` (with the --tier that has this run) in the"
            " same folder, or name the folder of results by --results",
        )  # fmt: skip
