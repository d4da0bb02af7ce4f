"""The finding of an audit of one mechanism: passed, failed, or not run and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.audits.mechanics import Check
from dpgnn.audits.one_run import OneRun
from dpgnn.audits.power import Detectable
from dpgnn.audits.statistics import Verdict

Outcome = Literal["passed", "failed", "not-run"]

# the attack on a choice: its runs are draws of planned losses, so what it detects is known without a share
CHOICE_ATTACK = "two worlds, the best of runs drawn from their planned losses"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of the audit of one mechanism.

    Attributes:
        mechanism: names of the audited mechanisms of the plan.
        attack: the audit in words.
        verdict: claim test of whole runs and lower bounds; None where the mechanism was not audited.
        step_verdict: claim test of single steps: weights are fixed, so each step of each run is an
            independent draw; None for releases.
        checks: exact tests of the loop.
        num_steps: steps of one run.
        attained_share: part of the planned sensitivity that the canary reached; None if not known, for
            releases with other than Gaussian noise.
        seconds: wall time.
        detectable: the smallest violation that the claim tests would have detected; None if not known, as
            where the share is not.
        one_run: bound from one run with many canaries, if requested.
        claimed_of_steps: with `one_run`, the claim's epsilon for the steps that were run.
        reason: why the mechanism was not audited; empty if it was.
        again: the same audit with new seeds, made if this one accuses; only both together count as failed.
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
    again: Finding | None = None

    @property
    def outcome(self) -> Outcome:
        """`failed` if a test accuses the mechanism twice, `not-run` if no test was made."""
        if self.accuses:
            return "failed" if self.again is None else self.again.outcome
        return "passed" if self._tests or self.one_run is not None else "not-run"

    @property
    def accuses(self) -> bool:
        """Whether a test of this audit accuses the mechanism."""
        if any(verdict.rejected for verdict in self._tests) or not all(
            c.passed for c in self.checks
        ):
            return True
        found = self.one_run
        return (
            found is not None
            and found.p_value is not None
            and found.p_value <= 1 - found.confidence
        )

    @property
    def p_value(self) -> float | None:
        """Upper bound on the probability of such an accusation of a correct mechanism; None without a test.

        Bonferroni over the kinds of test and the tests of a kind. A repeated audit has the larger of its two
        p-values.
        """
        kinds = [[v.p_value for v in self._tests], [c.p_value for c in self.checks]]
        kinds.append(
            [] if self.one_run is None or self.one_run.p_value is None else [self.one_run.p_value]
        )
        smallest = [len(values) * min(values) for values in kinds if values]
        if not smallest:
            return None
        own = min(1.0, len(smallest) * min(smallest))
        return own if self.again is None else max(own, self.again.p_value or 0.0)

    @property
    def _tests(self) -> list[Verdict]:
        return [verdict for verdict in (self.verdict, self.step_verdict) if verdict is not None]

    @property
    def lower_bound(self) -> OneRun | Verdict | None:
        """The lower bound on epsilon."""
        return self.one_run or self.verdict

    @property
    def passed(self) -> bool:
        """Whether tests were made and none accuses the mechanism."""
        return self.outcome == "passed"
