"""The study of drawn graphs: the head-to-head's entries and seeds, and no statement on accuracy."""

from __future__ import annotations

from helpers import ROOT
from studies import known

SCALE, MAIN = (
    known(ROOT / "workflow" / "studies" / f"{name}.yaml") for name in ("scale", "headtohead")
)


def test_entries_splits_and_seed_are_those_of_the_head_to_head() -> None:
    assert SCALE.config.root_seed == MAIN.config.root_seed
    assert SCALE.config.settings == MAIN.config.settings
    for name, entry in SCALE.entries.items():
        theirs = MAIN.entries[name].for_dataset("photo")
        ours = entry.for_dataset("photo")
        same = ("method", "mode", "relation")
        assert all(getattr(ours, part) == getattr(theirs, part) for part in same), name
        # DP-Linear was run here under the weaker unit, before the head-to-head had it at node
        weaker = ("node-record", "node") if name == "dp_linear" else (theirs.privacy_unit,) * 2
        assert (ours.privacy_unit, theirs.privacy_unit) == weaker, name
        assert entry.title == MAIN.entries[name].title
        if name not in ("votes", "votes-2"):  # whose mean degree is each graph's own
            assert ours.options == theirs.options, name


def test_drawn_graphs_stand_here_alone_and_nothing_is_said_of_their_accuracy() -> None:
    assert all(name.startswith("synthetic-") for name in SCALE.config.datasets)
    assert not any(name.startswith("synthetic-") for name in MAIN.config.datasets)
    assert [study.config.accuracy for study in (MAIN, SCALE)] == [True, False]
    stated = SCALE.config
    assert (stated.comparisons, stated.baseline, stated.tuned) == ((), "", ())
