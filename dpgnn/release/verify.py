"""Checks of a bundle without the graph: files, signature, plan, epsilon, tensors, words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from dpgnn.accountants import composition
from dpgnn.accountants.claims import Arithmetic, Claim
from dpgnn.accountants.events import Event, compose_all
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import fail, one_line, printable, require
from dpgnn.core.storage import canonical_json
from dpgnn.records.schema import claim_of, event_from, plan_of
from dpgnn.release import bundle
from dpgnn.release.audience import audience
from dpgnn.release.card import html_card, markdown_card
from dpgnn.release.certificate import certificate_of, signed_bytes
from dpgnn.release.expected import trained
from dpgnn.release.load import load
from dpgnn.release.model import Model
from dpgnn.release.recount import pure_epsilon
from dpgnn.release.recount_best import recount_any
from dpgnn.release.signature import is_signed
from dpgnn.release.verify_record import TOLERANCE, check_record, same
from dpgnn.run.plan import NUM_EDGES, release_arithmetic, stated_claims
from dpgnn.run.specification import entry_code

State = Literal["ok", "wrong", "not checked"]
# relative tolerance between two grids of losses
SLACK = 1.005
OWN_CODE = "the owner's own code, which is not run here,"
UNSIGNED = "no signature: whoever changes numbers and checksums together is found by the plan alone"


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check.

    Attributes:
        what: was checked, in a few words.
        state: "not checked" if the check was not possible; `note` says why.
        note: what was found.
    """

    what: str
    state: State
    note: str = ""


def verify(folder: str | Path, *, key: Path | None = None) -> Iterator[Check]:
    """Check a bundle; yields each check as it is made, and stops at a wrong file.

    Guarantee: detects a claim that differs from the recorded plan's, a plan that differs from the method's
    for the recorded options, facts and budget, and an epsilon below that of the events. Whether the run
    followed the plan, and whether stated facts are true, cannot be checked without the graph.

    Args:
        folder: the bundle.
        key: PEM file of the expected signer's Ed25519 public key.

    Returns:
        checks in order: what was checked, ok, wrong or not checked, and a note.
    """
    folder = Path(folder)
    try:
        stated = bundle.read_certificate(folder)
        bundle.check_files(folder, stated)
        model = load(folder)
    except Exception as error:  # any error from a forged value
        yield Check(what="files", state="wrong", note=_said(error))
        return
    yield Check(what="files", state="ok", note="certificate and files are those that were made")
    yield from _beside(folder, stated)
    yield _guarded("signature", lambda: _signature(folder, stated, key))
    yield _guarded("tensors", lambda: _tensors(model))
    yield _guarded("words", lambda: _words(folder, model, stated))
    record = _guarded("record", lambda: _record(model))
    yield record
    if record.state == "wrong":  # impossible numbers are not processed further
        return
    yield _guarded("release", lambda: _release(model))
    for what, make in {"network": _network, "answers": _answers, "code": _code}.items():
        yield _guarded(what, partial(make, model))
    if not model.record.claims:
        yield Check(what="claims", state="not checked", note="the model claims no privacy")
        return
    yield from _claimed(model)
    yield Check(what="run", state="not checked", note="whether it did as planned; needs the graph")


def _beside(folder: Path, stated: dict[str, Any]) -> Iterator[Check]:
    """Files in the folder that the certificate does not list: strangers, and the owner's own."""
    if others := bundle.strangers(folder, stated):
        note = f"no part of the bundle, take them out: {one_line(', '.join(others))}"
        yield Check(what="other files", state="wrong", note=note)
    if own := bundle.owners_files(folder):
        note = (
            f"{', '.join(own)}: present, private, take them out before handing on; not covered by the "
            "signature"
        )
        yield Check(what="owner's files", state="not checked", note=note)


def _claimed(model: Model) -> Iterator[Check]:
    """Checks of plan, claims and epsilon; events are not counted if the plan is not the method's."""
    made = cache(lambda: _planned(model))
    plan = _guarded("plan", lambda: _plan(model, made()))
    yield plan
    if plan.state == "wrong":
        for what in ("claims", "epsilon"):
            yield Check(what=what, state="not checked", note="the plan is wrong")
        return
    yield _guarded("claims", lambda: _claims(model, made()))
    yield _guarded("epsilon", lambda: _epsilon(model))


def _guarded(what: str, make: Callable[[], Check]) -> Check:
    try:
        return make()
    except Exception as error:
        return Check(what=what, state="wrong", note=_said(error))


def _said(error: Exception) -> str:
    """An error in one line, including a library's."""
    return one_line(error) or type(error).__name__


def _signature(folder: Path, stated: dict[str, Any], key: Path | None) -> Check:
    path = folder / bundle.SIGNATURE
    if not path.exists():
        state: State = "not checked" if key is None else "wrong"
        return Check(what="signature", state=state, note=UNSIGNED)
    if key is None:
        return Check(what="signature", state="not checked", note="name the public key by --key")
    if is_signed(signed_bytes(stated), path.read_bytes(), key):
        return Check(what="signature", state="ok", note=f"signed by the owner of {key}")
    return Check(what="signature", state="wrong", note=f"not signed by the owner of {key}")


def _tensors(model: Model) -> Check:
    """Check that the tensors are those that a fit of the method leaves, by name and shape."""
    names = ", ".join(sorted(model.state))
    if bundle.check_released(model):
        return Check(what="tensors", state="ok", note=f"only those that the method makes: {names}")
    if not model.record.claims:
        return Check(what="tensors", state="not checked", note="no claim says what may be let out")
    who = OWN_CODE if _module_of(model) else f"{model.entry.method}, which states none,"
    note = f"only {who} knows its tensors: {printable(names)}"
    return Check(what="tensors", state="not checked", note=note)


def _module_of(model: Model) -> str:
    """The name of the user's own network, of a chosen candidate too; "" where it has none."""
    entry, _ = trained(model.entry, model.state)
    return str(getattr(entry.options, "module", ""))


def _answers(model: Model) -> Check:
    """Check who may see an answer: method and options say it, whatever lies in the folder."""
    if not model.record.claims:
        same("answers", "none", model.claim.answers)
        return Check(what="answers", state="ok", note="for nobody: the model claims no privacy")
    released = str(model.record.claims[0]["released"])
    told = audience(model.entry, model.facts, released, model.state)
    if told is None:
        note = f"{model.entry.method} does not state its tensors, so nothing says who may see an answer"
        return Check(what="answers", state="not checked", note=note)
    same("prediction", told, dict(model.record.prediction))
    return Check(what="answers", state="ok", note=f"{told['answers']}, as method and options say")


def _network(model: Model) -> Check:
    """Check that the tensors form a working network, on a graph with zero features."""
    if model.knows_nodes:
        return Check(what="network", state="not checked", note="its answers need nodes of the fit")
    if _module_of(model):
        note = "its network is the owner's own code, which is not run here"
        return Check(what="network", state="not checked", note=note)
    import torch
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1], [1, 0]])
    zeros = torch.zeros(3, model.facts.num_features)
    found = model.predict(Data(x=zeros, edge_index=edges))
    told = {"answers": found.answers, "note": found.note}
    same("prediction", told, dict(model.record.prediction))
    return Check(what="network", state="ok", note="the tensors answer, as the record says")


def _words(folder: Path, model: Model, stated: dict[str, Any]) -> Check:
    """Check everything that is derived from the record: cards, words, audience of answers."""
    made = certificate_of(model, stated["files"])
    wrong = [
        name for name in made if canonical_json(made[name]) != canonical_json(stated.get(name))
    ]
    require(not wrong and set(made) == set(stated), "certificate", "follow from its record", wrong)
    for name, text in zip(bundle.CARDS, (markdown_card(model), html_card(model)), strict=True):
        same = (folder / name).read_text(encoding="utf-8") == text
        require(same, name, "follow from the record", "other words")
    told = bundle.note_of(folder / bundle.STATE)
    require(told == bundle.note_for(model), bundle.STATE, "have no other metadata", told)
    return Check(what="words", state="ok", note="cards and certificate say what the record says")


def _record(model: Model) -> Check:
    """Check that repeated facts of a record agree, and that a release records no seed."""
    check_record(model)
    return Check(what="record", state="ok", note="repeated facts agree")


def _release(model: Model) -> Check:
    """Whether noise was drawn in secret, as the record says; a seed voids the claim for who knows it."""
    if model.claim.is_release:
        return Check(
            what="release", state="ok", note="its record says that noise was drawn in secret"
        )
    note = (
        "no release: made with a seed, and whoever knows it knows the noise; do not hand it on"
        if model.record.claims
        else "no release: no privacy is claimed; do not hand it on"
    )
    return Check(what="release", state="not checked", note=note)


def _code(model: Model) -> Check:
    if model.record.code_sha256 == entry_code(model.entry):
        return Check(what="code", state="ok", note="made by the code that is installed here")
    version = model.record.versions.get("dpgnn", "unknown")
    return Check(what="code", state="not checked", note=f"made by other code (dpgnn {version})")


def _planned(model: Model) -> Plan:
    """The method's plan for the recorded options, facts and budget."""
    stated = model.record.budget
    budget = Budget(epsilon=float(stated["target_epsilon"]), delta=stated["delta"])
    return model.method.plan(model.entry, model.facts, budget)


def _plan(model: Model, again: Plan) -> Check:
    """Recompute the plan from options, public facts and budget."""
    same("plan", json.loads(canonical_json(plan_of(again))), model.record.plan)
    return Check(what="plan", state="ok", note="the method makes the same plan again")


def _claims(model: Model, plan: Plan) -> Check:
    """Recompute the claims from the plan."""
    record = model.record
    again = stated_claims(model.entry, plan, model.facts, record.budget["delta"])
    require(len(again) == len(record.claims), "claims", f"be {len(again)}", len(record.claims))
    for made, stated in zip(again, model.claim.claims, strict=True):
        same("claim words", claim_of(stated)["words"], _words_of(model, stated))
        for name in ("privacy_unit", "relation", "degree_bound", "epsilon", "delta", "accountant",
                     "status", "released", "selection"):  # fmt: skip
            same(f"claim {name}", getattr(made, name), getattr(stated, name))
        told = _arithmetic(model, made, plan)
        require(stated.arithmetic in told, "claim arithmetic", f"be {told[0]}", stated.arithmetic)
        more = sorted(set(stated.assumed_public) - {*made.assumed_public, NUM_EDGES})
        require(not more, "claim assumed_public", "name what the plan takes as public", more)
        for name in ("caveats", "assumed_public"):
            missing = set(getattr(made, name)) - set(getattr(stated, name))
            require(
                not missing, f"claim {name}", "name all of the plan", f"{sorted(missing)} missing"
            )
    spent = float(record.budget["spent_epsilon"])
    same("budget spent_epsilon", model.claim.epsilon, spent)
    return Check(what="claims", state="ok", note="they are those of the plan")


def _arithmetic(model: Model, made: Claim, plan: Plan) -> tuple[Arithmetic, ...]:
    """What a claim may say of floating point; the device of a release is not recorded."""
    if not model.claim.is_release or made.status != "proved":
        return (made.arithmetic,)
    return tuple(dict.fromkeys(release_arithmetic(plan, device) for device in ("cpu", "cuda")))


def _words_of(model: Model, claim: Any) -> str:
    place = model.claim.claims.index(claim)
    return str(model.record.claims[place]["words"])


def _epsilon(model: Model) -> Check:
    """Recompute epsilon from the recorded events: by the plan's accountant, and by dp-accounting."""
    claim = model.claim.claims[0]
    if claim.status != "proved" or math.isinf(claim.epsilon):
        why = "as published or infinite claims are no count of events"
        return Check(what="epsilon", state="not checked", note=why)
    events = _composed(model)
    stated = tuple(event.relation for event in events)
    require(all(r == claim.relation for r in stated), "events", f"be {claim.relation}", stated)
    counted = _pure(events) if claim.delta == 0 else _counted(events, claim)
    for name, (cost, slack) in counted.items():
        if not cost <= claim.epsilon * slack:
            fail("epsilon of the claim", f"be >= {cost:.6g}, what {name} counts", claim.epsilon)
    found = ", ".join(f"{cost:.6g} by {name}" for name, (cost, _) in counted.items())
    return Check(
        what="epsilon", state="ok", note=f"claimed {claim.epsilon:.6g}; the events cost {found}"
    )


def _counted(events: tuple[Event[Any], ...], claim: Claim) -> dict[str, tuple[float, float]]:
    """Accountant -> largest epsilon over compositions, and its tolerance above a claim."""

    def dearest(name: Literal["pld", "rdp"]) -> float:
        return max(
            composition.epsilon(event, delta=claim.delta, relation=event.relation, accountant=name)
            for event in events
        )

    own = (dearest("pld"), 1 + TOLERANCE)
    try:
        other = ("dp-accounting", max(recount_any(event, claim.delta) for event in events))
    except TypeError:  # an event that it does not count; Renyi divergences give only upper bounds
        other = ("Renyi divergences", dearest("rdp"))
        slack = math.inf
    else:
        slack = SLACK
    return {"dpgnn": own, other[0]: (other[1], slack)}


def _pure(events: tuple[Event[Any], ...]) -> dict[str, tuple[float, float]]:
    """The largest loss, in closed form."""
    return {"the largest loss": (max(pure_epsilon(event) for event in events), 1 + TOLERANCE)}


def _composed(model: Model) -> tuple[Event[Any], ...]:
    """The recorded events, one composition for each population; see `Plan.composed`."""
    stated = model.record.plan["mechanisms"]
    found = {mechanism.get("population") for mechanism in stated}
    named = [name for name in ("train", "others") if name in found]
    return tuple(
        compose_all(
            *(event_from(m["event"]) for m in stated if m.get("population") in (None, name))
        )
        for name in named or (None,)
    )
