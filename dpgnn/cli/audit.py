"""`dpgnn audit`: test the claim of one entry of a study, and bound its epsilon from below."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgnn.audits.entry_audit import AuditRequest, Finding
    from dpgnn.study import RunKey, Study


def add_parser(subparsers: Any) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser("audit", help="test an entry's claim, bound epsilon from below")
    parser.add_argument("--study", type=Path, required=True, help="the study's YAML file")
    parser.add_argument("--entry", required=True, help="the private entry")
    parser.add_argument("--dataset", required=True, help="its data set")
    parser.add_argument("--setting", required=True, help="its setting")
    parser.add_argument("--epsilon", required=True, help="its budget, as the study writes it")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument("--work", type=Path, default=Path("work"), help="where unfinished runs lie")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--runs", type=int, default=400, help="runs of each world and mechanism")
    parser.add_argument("--steps", type=int, default=64, help="steps of one run, at most")
    parser.add_argument("--level", type=float, default=0.001, help="false-alarm rate of the tests")
    parser.add_argument("--processes", type=int, default=1, help="processes")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Audit the entry and write what was found; an accused claim is a result, not an error."""
    from dpgnn.audits.entry_audit import audit, case_of
    from dpgnn.storage import write_json
    from dpgnn.study import RunKey, load_study

    study = load_study(args.study)
    key = RunKey(
        dataset=args.dataset, setting=args.setting, entry=args.entry, epsilon=args.epsilon, repeat=0
    )
    study.check_key(key)
    request = request_of(study, key, args)
    findings = audit(request)
    claimed = case_of(request).plan.claims[0].epsilon
    write_json(args.out, [recorded(finding, key, claimed) for finding in findings])
    for finding in findings:
        word = "not audited" if finding.attack == "none" else "passed"
        bound = finding.verdict.epsilon_lower_bound if finding.verdict else 0.0
        if not finding.passed:
            word = "ACCUSED"
        print(
            f"{key.folder} {finding.mechanism}: {word}, epsilon >= {bound:.3g} {finding.note}".rstrip(),
            file=sys.stderr,
        )
    if request.work is not None:
        import shutil

        shutil.rmtree(request.work, ignore_errors=True)
    return 0


def request_of(study: Study, key: RunKey, args: argparse.Namespace) -> AuditRequest:
    """The audit of a run's entry, planned from the public facts of its data set."""
    from dpgnn.accountants.plan import Budget
    from dpgnn.audits.entry_audit import AuditRequest
    from dpgnn.datasets.graph_files import read_graph
    from dpgnn.paths import Paths
    from dpgnn.runner import facts_of, resolve_delta
    from dpgnn.splits import read_split
    from dpgnn.study import epsilon_value

    paths = Paths(results=args.results)
    graph = read_graph(paths.graph(key.dataset))
    split_path = paths.split(key.dataset, key.setting, key.repeat)
    split = read_split(split_path, num_nodes=graph.num_nodes)
    entry = study.entries[key.entry].for_dataset(key.dataset)
    delta = resolve_delta(study.delta_for(key.entry, key.dataset), entry.privacy_unit, graph)
    return AuditRequest(
        entry=entry,
        budget=Budget(epsilon=epsilon_value(key.epsilon), delta=delta),
        facts=facts_of(graph, split, None),
        root_seed=study.config.root_seed,
        num_runs=args.runs,
        max_steps=args.steps,
        level=args.level,
        num_processes=args.processes,
        work=args.work
        / "audits"
        / study.name
        / f"{key.dataset}.{key.setting}.{key.entry}.{key.epsilon}",
        label=f"audit {key.dataset}/{key.entry}/{key.epsilon}",
    )


def recorded(finding: Finding, key: RunKey, claimed: float) -> dict[str, Any]:
    """A finding as the report reads it."""
    verdict = finding.verdict
    entry: dict[str, Any] = {
        "key": {name: getattr(key, name) for name in ("dataset", "setting", "entry", "epsilon")},
        "mechanism": finding.mechanism,
        "attack": f"{finding.mechanism}: {finding.attack}",
        "epsilon_lower_bound": verdict.epsilon_lower_bound if verdict else None,
        "confidence": 1 - verdict.level if verdict else None,
        "num_trials": verdict.num_trials if verdict else None,
        "note": _note(finding),
        "passed": finding.passed,
        "claimed_epsilon": claimed if math.isfinite(claimed) else None,
        "num_steps": finding.num_steps,
        "attained_share_of_sensitivity": finding.attained_share,
        "checks": [
            {"name": c.name, "passed": c.passed, "p_value": c.p_value, "found": c.found}
            for c in finding.checks
        ],
    }
    if verdict is not None:
        entry["claim_test"] = {
            "rejected": verdict.rejected,
            "level": verdict.level,
            "true_positive_rate_low": verdict.true_positive_rate_low,
            "false_positive_rate_high": verdict.false_positive_rate_high,
            "allowed_rate": verdict.allowed_rate,
        }
        entry["epsilon_gaussian_shape"] = verdict.epsilon_gaussian_shape
        entry["delta"] = verdict.delta
    return entry


def _note(finding: Finding) -> str:
    failed = [check.name for check in finding.checks if not check.passed]
    words = [finding.note] if finding.note else []
    if finding.verdict is not None and finding.verdict.rejected:
        words.append("the claim of the planned event is rejected")
    if failed:
        words.append(f"exact tests failed: {', '.join(failed)}")
    return "; ".join(words) or "no fault found"
