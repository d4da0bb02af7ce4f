"""The statement of a bundle: its record, public names, what is not covered, and checksums of its files.

The statement contains its own checksum, so that changes are detected; an optional signature shows who made
it. If both numbers and checksum are changed, recomputing the plan detects it (`verify`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from dpgnn.core.checks import fail, one_line, require
from dpgnn.core.storage import canonical_json, json_text, sha256_json
from dpgnn.records.schema import Record

if TYPE_CHECKING:
    from dpgnn.release.released import Released

FORMAT = 1
# integers up to this value are exact in every JSON reader
LARGEST = 2**53
NOT_COVERED = (
    "which nodes are training nodes: it is taken as public",
    "other models and answers made from the same graph: their epsilons and deltas add up",
    "how options were chosen, beyond what `selection` of each claim says",
)


def certificate_of(model: Released, files: Mapping[str, str]) -> dict[str, Any]:
    """The statement of a model.

    Args:
        model: what is saved.
        files: name -> sha256 of each other published file.
    """
    claim, record = model.claim, _plain(dataclasses.asdict(model.record))
    if record["randomness"]["kind"] == "release":
        # details of the fit are not claimed, and scores read private labels
        record |= {"details": {}, "metrics": {}, "inputs": {}}
    stated = {
        "format": FORMAT,
        "record": record,
        "claim": claim.words,
        "public": list(claim.public),
        "not_covered": not_covered(model),
        "answers": claim.answers,
        "names": {"classes": list(model.names.classes), "features": list(model.names.features)},
        "files": dict(sorted(files.items())),
        **({"directed_graph": True} if model.directed_graph else {}),
    }
    return stated | {"sha256": sha256_json(stated)}


def not_covered(model: Released) -> list[str]:
    """What the claims of a model do not cover."""
    published = ("who is in the graph: the ids of its nodes are published",)
    return [
        *NOT_COVERED,
        *(published if model.names.public_ids else ()),
        *(("all answers",) if model.claim.answers == "none" else ()),
    ]


def parse(text: str) -> Any:
    """A statement from its text.

    Raises:
        ValueError: it is not JSON, a number is not finite or has more than 16 digits, or the text is not the
            canonical one (a duplicate name, other blanks).
    """
    try:
        found = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
    except (json.JSONDecodeError, RecursionError) as error:
        fail("certificate.json", "be JSON", one_line(error))
    same = json_text(found) == text
    require(same, "certificate.json", "be in the form in which it was written", "other text")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > LARGEST:
        fail("numbers of certificate.json", f"be whole numbers up to {LARGEST}", digits)
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    require(math.isfinite(value), "numbers of certificate.json", "be finite", digits)
    return value


def _no_number(name: str) -> NoReturn:
    fail("numbers of certificate.json", "be finite", name)


def check_itself(stated: Any) -> None:
    """Compare a statement with its own checksum.

    Raises:
        ValueError: it is not a statement of this format, or was changed.
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
    directed = stated.get("directed_graph", True)
    rule = "be true, or left out where reverse edges are added"
    require(directed is True, "certificate.json: directed_graph", rule, directed)
    require(set(stated["names"]) == {"classes", "features"}, "names", "be of two kinds", stated)


def signed_bytes(stated: Mapping[str, Any]) -> bytes:
    """The bytes that are signed."""
    return canonical_json(stated).encode()


def record_in(stated: Mapping[str, Any]) -> Record:
    """The record in a statement.

    Raises:
        DamagedFileError: it is none.
    """
    from dpgnn.records.schema import record_from

    return record_from(stated["record"], "certificate.json")


def _plain(value: Any) -> Any:
    """The value after a round trip through JSON."""
    return json.loads(canonical_json(value))
