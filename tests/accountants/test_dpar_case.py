"""The events and the rule behind `dpgnn account dpar --mode sound`."""

import math

import pytest

from dpgnn.accountants import amplification, cases_dpar, composition
from dpgnn.accountants.events import GaussianRelease, GumbelTopK, PoissonRoots, parts

DELTA = 1e-6


@pytest.mark.parametrize("cap", [0, 2, 5])
@pytest.mark.parametrize("selection", ["em", "gm"])
def test_the_sound_dpar_case_counts_every_vector_and_every_changed_root(selection, cap):
    case = cases_dpar.dpar(
        num_train_nodes=2000, batch_size=60, subsample_rate=0.09, num_vectors=70, num_selected=2,
        delta=DELTA, selection=selection, column_cap=cap,
    )  # fmt: skip
    found = dict(parts(case.event(3.0, 40)))
    assert len(found) == 2
    (vectors, num_vectors), (roots, steps) = found.items()
    assert (num_vectors, steps) == (70, 40)
    if selection == "em":
        assert isinstance(vectors, GumbelTopK)
        assert (vectors.score_sensitivity, vectors.num_selected) == (1.0, 2)
    else:
        assert isinstance(vectors, GaussianRelease)
        assert vectors.sensitivity == pytest.approx(
            math.sqrt(2)
        )  # two nonnegative vectors of norm 1
    assert isinstance(roots, PoissonRoots)
    # s rows hold a node, and it is a root itself
    assert (roots.d_plus, roots.d_minus) == (cap + 1, cap + 1)
    assert roots.sampling_probability == pytest.approx(60 / 2000)
    assert {event.relation for event in found} == {"replace-one"}


def test_the_sound_dpar_case_is_amplified_by_the_right_rule():
    case = cases_dpar.dpar(
        num_train_nodes=2000, batch_size=60, subsample_rate=0.09, num_vectors=70, num_selected=2,
        delta=DELTA,
    )  # fmt: skip
    inner = composition.epsilon(case.event(3.0, 40), delta=DELTA / 0.09, relation="replace-one")
    expected = amplification.amplified(inner, DELTA / 0.09, 0.09)[0]
    assert case.epsilon(3.0, 40, DELTA) == pytest.approx(expected)
    assert expected > 0.09 * inner * 1.5  # what the paper's rule would say
