"""What a bundle states of itself: its record, what is public, what is not covered, a checksum of each file.

The statement holds a checksum of itself, so that a changed number is seen; a signature, where there is one,
says who made it. Whoever changes both is found by making the plan again (`verify`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import require
from dpgnn.core.storage import canonical_json, sha256_json
from dpgnn.records.schema import Record

if TYPE_CHECKING:
    from dpgnn.release.released import Released

FORMAT = 1
NOT_COVERED = (
    "which nodes are training nodes: it is taken as public",
    "other models and answers made from the same graph: their epsilons and deltas add up",
    "how options were chosen, beyond what `selection` of each claim says",
)


def certificate_of(model: Released, files: Mapping[str, str]) -> dict[str, Any]:
    """The statement of a model.

    Args:
        model: what is saved.
        files: name -> sha256 of each other file that may be handed on.
    """
    claim, record = model.claim, _plain(dataclasses.asdict(model.record))
    if record["randomness"]["kind"] == "release":
        # what the fit says of itself is no part of what is claimed, and scores read private labels
        record |= {"details": {}, "metrics": {}, "inputs": {}}
    stated = {
        "format": FORMAT,
        "record": record,
        "claim": claim.words,
        "public": list(claim.public),
        "not_covered": [*NOT_COVERED, *(("all answers",) if claim.answers == "none" else ())],
        "answers": claim.answers,
        "names": {"classes": list(model.names.classes), "features": list(model.names.features)},
        "files": dict(sorted(files.items())),
    }
    return stated | {"sha256": sha256_json(stated)}


def check_itself(stated: Any) -> None:
    """Compare a statement with its own checksum.

    Raises:
        ValueError: it is no statement of this format, or was changed.
    """
    require(
        isinstance(stated, dict), "certificate.json", "hold a certificate", type(stated).__name__
    )
    rest = {name: value for name, value in stated.items() if name != "sha256"}
    found = sha256_json(rest)
    rule = "be as it was made (sha256)"
    require(stated.get("sha256") == found, "certificate.json", rule, "other content")
    require(stated.get("format") == FORMAT, "format", f"be {FORMAT}", stated.get("format"))
    for name in ("record", "names", "files"):
        found = stated.get(name)
        require(isinstance(found, dict), f"certificate.json: {name}", "be an object", found)
    for kind in ("classes", "features"):
        told = stated["names"].get(kind)
        texts = isinstance(told, list) and all(isinstance(one, str) and one for one in told)
        require(texts, f"certificate.json: names of {kind}", "be texts", told)
    require(set(stated["names"]) == {"classes", "features"}, "names", "be of two kinds", stated)


def signed_bytes(stated: Mapping[str, Any]) -> bytes:
    """What a signature is of."""
    return canonical_json(stated).encode()


def record_in(stated: Mapping[str, Any]) -> Record:
    """The record in a statement.

    Raises:
        DamagedFileError: it is none.
    """
    from dpgnn.records.schema import record_from

    return record_from(stated["record"], "certificate.json")


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    import json

    return json.loads(canonical_json(value))
