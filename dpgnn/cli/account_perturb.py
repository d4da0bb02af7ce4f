"""What the flags of `dpgnn account` mean for gap, dpdgc and caribou: the numbers of their sound plans.

The roots that one unit changes and the sensitivities are read from the methods, so that the noise multipliers
of a plan, given here, cost what the plan claims.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpgnn.core import checks

if TYPE_CHECKING:
    from dpgnn.accountants.cases import Case
    from dpgnn.accountants.events import Event

METHODS = ("caribou", "gap", "dpdgc")
_PARTS = ("noise", "steps", "rate")


def perturb_case(args: argparse.Namespace) -> Case:
    """The case of a noisy aggregation that the flags describe.

    Raises:
        ValueError: flags of one training are given in part, or sound mode lacks what its proof needs.
    """
    from dpgnn.accountants import cases

    sound = args.mode == "sound"
    if sound:
        _check_sound(args)
    training, details = _training(args)
    bound = args.degree_bound if args.privacy_unit != "node-record" else None
    common: dict[str, Any] = {
        "sensitivity": _sensitivity(args),
        "unit": args.privacy_unit,
        "relation": args.relation,
        "degree_bound": bound,
        "training": training,
        "proved_training": _proved_training(args) if sound or args.compare else None,
    }
    if args.method == "caribou":
        case = cases.caribou(contraction=args.contraction, **common)
    else:
        whole = args.method == "gap" or args.head_noise is not None
        case = cases.aggregation(method=args.method, whole=whole, **common)
    return replace(case, details={**case.details, **details})


def changed_roots(args: argparse.Namespace) -> tuple[int, int]:
    """(d_plus, d_minus) of the training of `--training-*`: of the embedding for dpdgc, else of one record."""
    from dpgnn.methods.dpdgc import method as dpdgc
    from dpgnn.methods.dpdgc import plan as dpdgc_plan

    if args.method != "dpdgc":
        return _own_roots(args)
    if args.privacy_unit == "edge":
        return dpdgc_plan.EDGE_ROWS
    if args.degree_bound is None:
        remedy = "give --degree-bound D: one node changes about D rows of the embedding's training"
        checks.fail("degree_bound", f"be given for {args.privacy_unit}", None, remedy)
    return dpdgc.changed_rows(args.degree_bound, args.relation)


def proved_sensitivity(args: argparse.Namespace) -> str:
    """The L2 change of one release that the method's sound plan proves, for an error message."""
    from dpgnn.methods.caribou import sensitivity as caribou_sensitivity
    from dpgnn.methods.gap import method as gap

    edge = args.privacy_unit == "edge"
    if args.method == "caribou" and edge:
        size = args.contraction * caribou_sensitivity.edge_operator_sensitivity(0)
        return f"sqrt(2) c alpha1 = {size:.6g} for alpha1 = 1 and an undirected edge"
    if args.method == "caribou":
        return "c alpha1 times the node's share (docs/methods/caribou.md) for one node"
    scale = "s " if args.method == "dpdgc" else ""
    of_scale = " (s = 1)" if scale else ""
    if edge:
        size = gap.edge_sensitivity(directed=False)
        return f"{scale}sqrt(2) = {size:.6g}{of_scale} for an undirected edge"
    factor = "2 sqrt(D)" if args.relation == "replace-one" else "sqrt(D)"
    if args.degree_bound is None:
        return f"{scale}{factor} for one node"
    size = gap.node_sensitivity(args.degree_bound, args.relation)
    return f"{scale}{factor} = {size:.6g}{of_scale} for one node"


def _check_sound(args: argparse.Namespace) -> None:
    from dpgnn import methods

    if args.sensitivity is None:
        remedy = f"the sound plan of {args.method} proves {proved_sensitivity(args)}"
        checks.fail("sensitivity", "be given in sound mode", None, remedy)
    asked = (args.privacy_unit, args.relation)
    supports = methods.get(args.method).supports
    if all((s.privacy_unit, s.relation) != asked for s in supports):
        units = ", ".join(dict.fromkeys(str(s.privacy_unit) for s in supports))
        rule = f"be one that the sound plan of {args.method} protects ({units})"
        checks.fail("privacy_unit", rule, f"{args.privacy_unit} ({args.relation})")
    trained = args.training_noise is not None
    if args.method == "dpdgc" and not trained:
        remedy = (
            "the embedding is trained on private rows; add --training-noise, --training-steps, "
        )
        checks.fail("training", "be given in sound mode", None, remedy + "--training-rate")
    if args.method == "caribou" and args.privacy_unit != "edge" and not trained:
        rule = "be null-one or replace-one where X_K is released: its number of rows is public"
        remedy = "or count the training of encoder and head with --training-*"
        checks.require(args.relation != "add-remove", "relation", rule, args.relation, remedy)


def _sensitivity(args: argparse.Namespace) -> float:
    return 1.0 if args.sensitivity is None else float(args.sensitivity)


def _own_roots(args: argparse.Namespace) -> tuple[int, int]:
    """Roots of a training that reads no edges: the one node's own."""
    from dpgnn.methods.shared.node_level import CHANGED

    return CHANGED[args.relation]


def _training(args: argparse.Namespace) -> tuple[Event[Any] | None, dict[str, Any]]:
    """All training as the publications count it (one root, noise z C), and what to print of it."""
    from dpgnn.accountants.events import compose_all

    if not _given(args, "training"):
        if _given(args, "head"):
            checks.fail("training", "be given with the head's", None, "add the --training-* flags")
        return None, {}
    changed = _own_roots(args)
    event = _steps(args, "training", changed, args.training_noise)
    if _given(args, "head"):
        event = compose_all(event, _steps(args, "head", changed, args.head_noise))
    if args.mode != "sound":
        return event, {}
    proved = changed_roots(args)
    stddev = args.training_noise * sum(proved)
    return event, {"training_changed_roots": proved, "training_noise_stddev": stddev}


def _proved_training(args: argparse.Namespace) -> Event[Any] | None:
    """All training as the sound plans count it: noise z C (d_plus + d_minus)."""
    from dpgnn.accountants.events import compose_all

    if args.training_noise is None:
        return None
    changed = changed_roots(args)
    event = _steps(args, "training", changed, args.training_noise * sum(changed))
    if not _given(args, "head"):
        return event
    edge = args.privacy_unit == "edge"
    remedy = "the head reads no edge and costs nothing there"
    checks.require(not edge, "head-noise", "be left out at edge level", args.head_noise, remedy)
    own = _own_roots(args)
    return compose_all(event, _steps(args, "head", own, args.head_noise * sum(own)))


def _steps(
    args: argparse.Namespace, name: str, changed: tuple[int, int], noise_stddev: float
) -> Event[Any]:
    from dpgnn.accountants.events import PoissonRoots, compose

    step: PoissonRoots[Any] = PoissonRoots(
        relation=args.relation,
        noise_stddev=noise_stddev,
        clipping_norm=1.0,
        sampling_probability=getattr(args, f"{name}_rate"),
        d_plus=changed[0],
        d_minus=changed[1],
    )
    return compose(step, getattr(args, f"{name}_steps"))


def _given(args: argparse.Namespace, name: str) -> bool:
    """Whether the flags of one training are there; all of them or none."""
    values = {f"--{name}-{part}": getattr(args, f"{name}_{part}", None) for part in _PARTS}
    missing = [flag for flag, value in values.items() if value is None]
    if missing and len(missing) < len(values):
        checks.fail(name, "be given whole", missing, f"add {', '.join(missing)}")
    return not missing
