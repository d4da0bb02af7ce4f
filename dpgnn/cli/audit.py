"""`dpgnn audit`: test the claim of one entry of a study, and bound its epsilon from below."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import add_study_file
from dpgnn.core.wording import aligned

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.audits.findings import Finding
    from dpgnn.audits.request import AuditRequest
    from dpgnn.audits.statistics import Verdict
    from dpgnn.study.study import RunKey, Study


def add_parser(subparsers: Any) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser("audit", help="test an entry's claim, bound epsilon from below")
    add_study_file(parser)
    parser.add_argument("--entry", required=True, help="the private entry")
    parser.add_argument("--dataset", required=True, help="its data set")
    parser.add_argument("--setting", required=True, help="its setting")
    parser.add_argument("--epsilon", required=True, help="its budget, as written in the study")
    said = "its repeat: another has other seeds, and the facts of its own split"
    parser.add_argument("--repeat", type=int, default=0, help=said)
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of unfinished runs")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--runs", type=int, default=400, help="runs of each world and mechanism")
    parser.add_argument("--steps", type=int, default=64, help="largest number of steps of one run")
    parser.add_argument("--level", type=float, default=0.001, help="false-alarm rate of the tests")
    parser.add_argument("--processes", "--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--one-run", type=int, default=0, metavar="CANARIES",
        help="bound epsilon from one run with so many canaries, in place of the claim test",
    )  # fmt: skip
    parser.add_argument(
        "--no-attacks", action="store_true",
        help="leave out results of attacks on the same runs (for the workflow, where the file must not "
        "depend on the order of jobs)",
    )  # fmt: skip
    parser.add_argument(
        "--exit-zero", action="store_true",
        help="always exit with 0 (for the workflow, where an accusation is a result)",
    )  # fmt: skip
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Audit the entry and write the findings.

    Returns:
        0 if every mechanism passed, 3 if one is accused, 4 if none is accused and one was not audited.
    """
    from dpgnn.audits.entry_audit import audit
    from dpgnn.audits.one_run_audit import audit_in_one_run
    from dpgnn.audits.request import claimed_plan
    from dpgnn.core.checks import at_least
    from dpgnn.core.checksums import write_checksums
    from dpgnn.core.paths import Paths
    from dpgnn.core.storage import write_json
    from dpgnn.records.attacks import KEY
    from dpgnn.study.study import RunKey, load_study
    from dpgnn.study.wanted import Wanted

    study = load_study(args.study)
    repeat = at_least("--repeat", args.repeat, 0)
    key = RunKey(**{name: getattr(args, name) for name in KEY}, repeat=repeat)
    study.check_key(key)
    request = request_of(study, key, args)
    attacks = Paths(results=args.results).study(study.name) / "attacks"
    attacked = [] if args.no_attacks else attacks_on(attacks, key)
    claims = claimed_plan(request).claims
    findings = audit_in_one_run(request, args.one_run) if args.one_run else audit(request)
    of_run = {"config_sha256": Wanted(study).config_sha256(key)}
    made = [of_run | recorded(finding, key, claims[0]) for finding in findings]
    write_json(args.out, [*made, *attacked])
    write_checksums(args.out.with_suffix(".sha256"), [args.out])
    print(_table(findings, key, claims))
    if attacked:
        print(_attack_table(attacked))
    if request.work is not None:
        shutil.rmtree(request.work, ignore_errors=True)
    outcomes = {finding.outcome for finding in findings}
    worst = next((name for name in ("failed", "not-run") if name in outcomes), "passed")
    return 0 if args.exit_zero else EXIT[worst]


EXIT = {"passed": 0, "failed": 3, "not-run": 4}


def attacks_on(folder: Path, key: RunKey) -> list[dict[str, Any]]:
    """Results of `dpgnn attack` on the entry's runs of this data set, setting and budget, as JSON.

    Args:
        folder: the study's attacks/.
        key: of the audit; every repeat counts.
    """
    from dpgnn.records.attacks import KEY, read_attacks
    from dpgnn.report.tables.attack_verdicts import detects, has_scorer, lower_bound, verdict
    from dpgnn.report.tables.attacks import full_kind_of

    stem = key.stem
    found = []
    for result in read_attacks(folder, f"{glob.escape(stem)}.*.json"):
        if result.status == "ok":
            found.append({
                "kind": "attack",
                "key": {**dict(zip(KEY, result.place)), "repeat": result.repeat},
                "attack": full_kind_of(result),
                "auc": result.auc if has_scorer(result) else None,
                "epsilon_lower_bound": lower_bound(result),
                "detects": detects(result),
                "verdict": verdict(result),
            })  # fmt: skip
    return found


def _attack_table(attacked: Sequence[dict[str, Any]]) -> str:
    """One line for each attack on a run."""
    rows = [("attack", "repeat", "AUC", "epsilon >=", "can show", "verdict")]
    for item in attacked:
        numbers = (item["auc"], item["epsilon_lower_bound"], item["detects"])
        shown = ["-" if number is None else f"{number:.3g}" for number in numbers]
        rows.append((item["attack"], str(item["key"].get("repeat", 0)), *shown, item["verdict"]))
    return "\n".join(["attacks on its runs", *aligned(rows)])


def _table(findings: Sequence[Finding], key: RunKey, claims: Sequence[Claim]) -> str:
    """Claimed and proved epsilon, and a line for each mechanism with its measured epsilon."""
    from dpgnn.report.tables.claims_table import proved_elsewhere, proved_of

    proved, other = proved_of(claims), proved_elsewhere(claims)
    words = f"claimed epsilon {claims[0].epsilon:.4g}, " + (
        "nothing proved" if proved is None else f"proved {proved:.4g}"
    )
    if other is not None:
        words += f" ({other.epsilon:.4g} under {other.relation})"
    rows = [("mechanism", "outcome", "epsilon >=", "detects epsilon >=", "seconds", "note")]
    for finding in findings:
        bound = finding.lower_bound
        rows.append(
            (
                finding.mechanism,
                finding.outcome,
                "-" if bound is None else f"{bound.epsilon_lower_bound:.3g}",
                _detects(finding),
                f"{finding.seconds:.0f}",
                _note(finding),
            )
        )
    return "\n".join([f"audit of {key.folder}: {words}", *aligned(rows)])


def _detects(finding: Finding) -> str:
    """The detectable epsilon; a dash if no factor is seen or no claim test was made."""
    seen = finding.detectable
    if seen is None:
        return "-" if finding.verdict is None else "not known"
    return "-" if seen.epsilon is None else f"{seen.epsilon:.3g}"


def request_of(study: Study, key: RunKey, args: argparse.Namespace) -> AuditRequest:
    """The audit of a run's entry, planned from the public facts of its data set."""
    from dpgnn.accountants.plan import Budget
    from dpgnn.audits.request import AuditRequest
    from dpgnn.cli.made import require_made
    from dpgnn.core.paths import Paths
    from dpgnn.core.seeds import child_seed
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.splits import read_split
    from dpgnn.methods.base import facts_of
    from dpgnn.run.specification import checked_delta
    from dpgnn.study.wanted import Wanted

    paths = Paths(results=args.results)
    require_made(study, key, paths, "audit")
    graph = read_graph(paths.graph(key.dataset))
    split_path = paths.split(key.dataset, key.setting, key.repeat)
    split = read_split(split_path, num_nodes=graph.num_nodes)
    stated = dataclasses.replace(Wanted(study).inputs(key), graph=graph)
    seed = study.config.root_seed
    if key.repeat:
        seed = child_seed(seed, "audit", part="repeat", repeat=key.repeat)
    return AuditRequest(
        entry=stated.entry,
        budget=Budget(epsilon=stated.epsilon, delta=checked_delta(stated)),
        facts=facts_of(graph, split, None, stated.population),
        root_seed=seed,
        num_runs=args.runs,
        max_steps=args.steps,
        level=args.level,
        num_processes=args.processes,
        work=args.work
        / "audits"
        / study.name
        / f"{key.dataset}.{key.setting}.{key.entry}.{key.epsilon}.{key.repeat}",
        label=f"audit {key.dataset}/{key.entry}/{key.epsilon}/{key.repeat}",
        randomness=study.config.randomness,
    )


def recorded(finding: Finding, key: RunKey, claim: Claim) -> dict[str, Any]:
    """A finding as JSON, as the report reads it."""
    from dpgnn.records.attacks import KEY

    verdict, bound = finding.verdict, finding.lower_bound
    names = (*KEY, "repeat") if key.repeat else KEY
    entry: dict[str, Any] = {
        "key": {name: getattr(key, name) for name in names},
        "mechanism": finding.mechanism,
        "attack": f"{finding.mechanism}: {finding.attack}",
        "epsilon_lower_bound": None if bound is None else bound.epsilon_lower_bound,
        "confidence": None if bound is None else bound.confidence,
        "num_trials": None if bound is None else bound.num_trials,
        "note": _note(finding),
        "outcome": finding.outcome,
        "p_value": finding.p_value,
        "accused_once": finding.accuses and finding.outcome != "failed",
        "reason": finding.reason,
        "privacy_unit": claim.privacy_unit,
        "relation": claim.relation,
        "claimed_epsilon": claim.epsilon if math.isfinite(claim.epsilon) else None,
        "claimed_delta": claim.delta,
        "num_steps": finding.num_steps,
        "attained_share_of_sensitivity": finding.attained_share,
        "checks": [
            {"name": c.name, "passed": c.passed, "p_value": c.p_value, "found": c.found}
            for c in finding.checks
        ],
    }
    if verdict is not None:
        entry["claim_test"] = _recorded_test(verdict)
        entry["epsilon_gaussian_shape"] = verdict.epsilon_gaussian_shape
        entry["delta"] = verdict.delta
    if finding.step_verdict is not None:
        entry["claim_test_of_steps"] = _recorded_test(finding.step_verdict)
    if finding.detectable is not None:
        entry["detectable"] = dataclasses.asdict(finding.detectable)
        entry["detectable_epsilon"] = finding.detectable.epsilon
    return entry


def _recorded_test(verdict: Verdict) -> dict[str, Any]:
    return {
        "rejected": verdict.rejected,
        "level": verdict.level,
        "num_trials": verdict.num_trials,
        "true_positive_rate_low": verdict.true_positive_rate_low,
        "false_positive_rate_high": verdict.false_positive_rate_high,
        "allowed_rate": verdict.allowed_rate,
    }


def _note(finding: Finding) -> str:
    if finding.outcome == "not-run":
        return f"not run: {finding.reason or 'no test was made'}"
    failed = [check.name for check in finding.checks if not check.passed]
    words = []
    if finding.verdict is not None and finding.verdict.rejected:
        words.append("the claim of the planned event is rejected")
    if finding.step_verdict is not None and finding.step_verdict.rejected:
        words.append("the claim of one step is rejected")
    if finding.one_run is not None and finding.outcome == "failed":
        words.append(
            f"more right guesses than the epsilon {finding.claimed_of_steps:.4g} claimed for the steps admits"
        )
    if failed:
        words.append(f"exact tests failed: {', '.join(failed)}")
    if finding.accuses and finding.outcome != "failed":
        words.append("not so with new seeds")
    return "; ".join(words) or "no fault found"
