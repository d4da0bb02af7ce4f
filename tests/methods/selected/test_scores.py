"""Every base method's number of right answers moves by what it states, on neighbours of a small graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from contract import NOT_THERE, options_of
from exhaustive.method_neighbours import examine_method

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Support
from dpgnn.methods.selected.options import score_of

SELECTED = methods.get("selected")
BASES = [name for name in methods.TABLE if methods.get(name).score is not None]
CASES = [
    pytest.param(name, support, id=f"{name} {support.privacy_unit} {support.relation}")
    for name in BASES
    for support in methods.get(name).supports
    if (name, "sound", support.privacy_unit, support.relation) not in NOT_THERE
]
# of the toy graph's 30 training nodes there are 10 in the small one; stages share a budget in one way for all
SIZES = {
    "gap": {"node.rule": "shared-multiplier"},
    "caribou": {"node.rule": "shared-multiplier"},
    "dpdgc": {"node.rule": "shared-multiplier"},
}


@pytest.mark.parametrize(("name", "support"), CASES)
def test_right_answers_move_by_no_more_than_is_stated(
    name: str, support: Support, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = options_of(methods.get(name), support)
    if support.privacy_unit != "edge":
        options |= SIZES.get(name, {})
    if name == "votes":
        options |= {"mlp.training.expected_batch_size": 10}
    entry = Entry(
        name="chosen", method="selected", mode="sound", privacy_unit=support.privacy_unit,
        relation=support.relation,
        options=strict.read(
            SELECTED.config, {"base": name, "base_options": options, "candidates": [{}, {}]}
        ),
    )  # fmt: skip
    SELECTED.check_entry(entry, "entries.chosen")
    real, alone = methods.get, replace(SELECTED, inner=lambda entry, plan: ())
    monkeypatch.setattr(methods, "get", lambda name: alone if name == "selected" else real(name))
    reports = examine_method(entry, Budget(epsilon=8.0, delta=1e-3), max_neighbours=16)
    (report,) = [one for one in reports if one.mechanism in ("choice", "choice/others")]
    assert not report.faults
    assert report.worst <= 1
    assert score_of(entry).sensitivity == (0 if support.privacy_unit == "edge" else 1)
