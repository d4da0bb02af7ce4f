"""What the audit of one mechanism found: passed, failed, or not run and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.audits.mechanics import Check
from dpgnn.audits.one_run import OneRun
from dpgnn.audits.power import Detectable
from dpgnn.audits.statistics import Verdict

Outcome = Literal["passed", "failed", "not-run"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the audit of one mechanism says.

    Attributes:
        mechanism: names of the audited mechanisms of the plan.
        attack: what was done, in words.
        verdict: claim test of whole runs and lower bounds; None where the mechanism was not audited.
        step_verdict: claim test of single steps: no weight moves, so each step of each run is a draw of
            its own; None for releases.
        checks: exact tests of the loop.
        num_steps: steps of one run.
        attained_share: part of the planned sensitivity that the canary reached; None for releases.
        seconds: wall time.
        detectable: the smallest violation the claim tests would have accused; None where not computed.
        one_run: bound from one run with many canaries, where that was asked for.
        claimed_of_steps: with `one_run`, the claim's epsilon for the steps that were run.
        reason: why the mechanism was not audited; empty where it was.
    """

    mechanism: str
    attack: str
    verdict: Verdict | None
    step_verdict: Verdict | None = None
    checks: tuple[Check, ...] = ()
    num_steps: int = 1
    attained_share: float | None = None
    seconds: float = 0.0
    detectable: Detectable | None = None
    one_run: OneRun | None = None
    claimed_of_steps: float | None = None
    reason: str = ""

    @property
    def outcome(self) -> Outcome:
        """`failed` where a test accuses the mechanism, `not-run` where no test was made."""
        tests = [verdict for verdict in (self.verdict, self.step_verdict) if verdict is not None]
        if any(verdict.rejected for verdict in tests) or not all(c.passed for c in self.checks):
            return "failed"
        if self.one_run is not None:
            assert self.claimed_of_steps is not None
            true = self.one_run.epsilon_lower_bound <= self.claimed_of_steps
            return "passed" if true else "failed"
        return "passed" if tests else "not-run"

    @property
    def lower_bound(self) -> OneRun | Verdict | None:
        """What bounds epsilon from below."""
        return self.one_run or self.verdict

    @property
    def passed(self) -> bool:
        """Whether tests were made and none accuses the mechanism."""
        return self.outcome == "passed"
