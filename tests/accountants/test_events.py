"""Events: what they accept, how they compose, and that relations and schemes cannot be mixed."""

import subprocess
import sys
import textwrap
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from helpers import ROOT
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.accountants import composition, events, pld, published
from dpgnn.accountants.events import compose, compose_all


def test_composing_n_times_equals_n_compositions_for_every_event(every_event):
    for name, event in every_event.items():
        assert compose(event, 3) == compose_all(event, event, event), name
        assert compose(compose(event, 2), 3) == compose(event, 6), name


def test_the_loss_of_n_runs_equals_n_composed_losses_for_every_event(every_event):
    step = 2e-3
    for name, event in every_event.items():
        if isinstance(event, events.GumbelTopK):
            continue  # its runs are composed by zCDP, in one block; tested in test_zcdp
        once, thrice = pld.event_loss(event, 1, step), pld.event_loss(event, 3, step)
        for direction in ("forward", "backward"):
            one = getattr(once, direction)
            composed = one.compose(one).compose(one)
            for epsilon in (0.0, 0.3, 1.0):
                expected = getattr(thrice, direction).delta(epsilon)
                # a Gaussian's three runs are discretised once, so its loss is the tighter of the two
                assert composed.delta(epsilon) == pytest.approx(expected, rel=3e-3, abs=1e-12), name


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=6))
def test_counts_of_equal_events_add_up_in_any_nesting(choices):
    base = [
        events.GaussianRelease(relation="null-one", noise_stddev=1.0 + i, sensitivity=1.0)
        for i in range(3)
    ]
    nested = compose_all(*(compose(base[i], n) for i, n in choices))
    counts = dict(nested.parts)
    for i, event in enumerate(base):
        assert counts.get(event, 0) == sum(n for j, n in choices if j == i)


def test_no_run_tells_nothing(every_event):
    for event in every_event.values():
        none = compose(event, 0)
        assert none.parts == ()
        assert composition.epsilon(none, delta=1e-6, relation=event.relation) == 0.0


def test_counting_under_another_relation_names_both(every_event):
    event = every_event["poisson two-sided"]
    with pytest.raises(TypeError, match=r"'add-remove' cannot be counted under 'replace-one'"):
        composition.epsilon(event, delta=1e-6, relation="replace-one")
    with pytest.raises(TypeError, match=r"'add-remove'.*'replace-one'"):
        compose_all(every_event["gaussian"], event)


def test_counting_under_another_sampling_scheme_names_both(every_event):
    orders = np.array([2.0])
    with pytest.raises(TypeError, match="counts FixedSizeRoots, not PoissonRoots"):
        published.dpgnn_theorem1_rdp(every_event["poisson two-sided"], orders)
    with pytest.raises(TypeError, match="counts PoissonRoots, not FixedSizeRoots"):
        published.dp_sgd_rdp(every_event["fixed, one root"], orders)


def test_a_fixed_size_batch_has_no_add_remove():
    with pytest.raises(TypeError, match=r"FixedSizeRoots.*'add-remove'"):
        events.FixedSizeRoots(
            relation="add-remove", noise_stddev=1.0, clipping_norm=1.0, population=10,
            batch_size=2, changed_roots=1,
        )  # fmt: skip


MISUSES = {
    "relation": 'composition.epsilon(added, delta=1e-6, relation="replace-one")',
    "mixed relations": "compose_all(added, replaced)",
    "scheme": "published.dpgnn_theorem1_rdp(added, np.array([2.0]))",
    "other scheme": "published.dp_sgd_rdp(replaced, np.array([2.0]))",
    "fixed-size add-remove": (
        'FixedSizeRoots(relation="add-remove", noise_stddev=1.0, clipping_norm=1.0,'
        " population=9, batch_size=3, changed_roots=1)"
    ),
}


def test_mypy_refuses_relations_and_schemes_that_do_not_belong(tmp_path):
    header = """
        import numpy as np
        from dpgnn.accountants import composition, published
        from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, compose_all
        added = PoissonRoots(relation="add-remove", noise_stddev=1.0, clipping_norm=1.0,
                             sampling_probability=0.1, d_plus=1, d_minus=0)
        replaced = FixedSizeRoots(relation="replace-one", noise_stddev=1.0, clipping_norm=1.0,
                                  population=9, batch_size=3, changed_roots=1)
        composition.epsilon(added, delta=1e-6, relation="add-remove")
        published.dpgnn_theorem1_rdp(replaced, np.array([2.0]))
    """
    lines = textwrap.dedent(header).strip().splitlines()
    first_misuse = len(lines) + 1
    source = tmp_path / "misuse.py"
    source.write_text("\n".join([*lines, *MISUSES.values()]) + "\n")
    # with the project's options and its cache, which `make lint` fills
    command = [sys.executable, "-m", "mypy", str(source)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    expected = set(range(first_misuse, first_misuse + len(MISUSES)))
    assert wrong == expected, found.stdout + found.stderr


def test_events_are_frozen_and_keyword_only(every_event):
    with pytest.raises(FrozenInstanceError):
        every_event["gaussian"].noise_stddev = 0.0
    with pytest.raises(TypeError):
        events.GaussianRelease("add-remove", 1.0, 1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: events.GaussianRelease(relation="both", noise_stddev=1.0, sensitivity=1.0),
         "unknown relation 'both'"),
        (lambda: events.GaussianRelease(relation="null-one", noise_stddev=-1.0, sensitivity=1.0),
         "noise_stddev must be >= 0"),
        (lambda: events.LaplaceRelease(relation="null-one", scale=0.0, sensitivity=1.0),
         "scale must be > 0"),
        (lambda: events.PoissonRoots(relation="add-remove", noise_stddev=1.0, clipping_norm=1.0,
                                     sampling_probability=0.1, d_plus=1, d_minus=2),
         "d_minus must be <= d_plus"),
        (lambda: events.PoissonRoots(relation="replace-one", noise_stddev=1.0, clipping_norm=1.0,
                                     sampling_probability=0.1, d_plus=2, d_minus=1),
         "d_minus must equal d_plus = 2 under replace-one"),
        (lambda: events.PoissonRoots(relation="replace-one", noise_stddev=1.0, clipping_norm=1.0,
                                     sampling_probability=0.1, d_plus=10**8, d_minus=10**8),
         "d_plus must be <= 2000000, got 100000000; fewer roots change with a smaller max_degree"),
        (lambda: events.FixedSizeRoots(relation="null-one", noise_stddev=1.0, clipping_norm=1.0,
                                       population=5, batch_size=6, changed_roots=1),
         "batch_size must be <= population = 5"),
        (lambda: events.ContractiveIteration(relation="null-one", noise_stddev=1.0,
                                             sensitivity=1.0, num_hops=2, contraction=1.5),
         "contraction must be in"),
        (lambda: compose(events.GaussianRelease(relation="null-one", noise_stddev=1.0,
                                                sensitivity=1.0), -1),
         "count must be >= 0"),
        (lambda: compose_all(), "events must hold at least one event"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_with_name_rule_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
