"""Events of every kind, and the accounting vectors."""

import json
from pathlib import Path

import pytest
from hypothesis import settings

from dpgnn.accountants import events

# Values are curves that are built once and kept: the first call is slow, no other is.
settings.register_profile("accountants", deadline=None)
settings.load_profile("accountants")

VECTORS = Path(__file__).parent / "accounting_vectors.json"


@pytest.fixture(scope="session")
def vectors():
    return json.loads(VECTORS.read_text())


@pytest.fixture(scope="session")
def poisson():
    """Poisson roots with C = 1."""

    def build(noise_stddev, rate, d_plus, d_minus, relation="add-remove"):
        return events.PoissonRoots(
            relation=relation,
            noise_stddev=noise_stddev,
            clipping_norm=1.0,
            sampling_probability=rate,
            d_plus=d_plus,
            d_minus=d_minus,
        )

    return build


@pytest.fixture(scope="session")
def fixed():
    """Fixed-size batches with C = 1."""

    def build(noise_stddev, population, batch_size, changed_roots, relation="replace-one"):
        return events.FixedSizeRoots(
            relation=relation,
            noise_stddev=noise_stddev,
            clipping_norm=1.0,
            population=population,
            batch_size=batch_size,
            changed_roots=changed_roots,
        )

    return build


@pytest.fixture(scope="session")
def every_event():
    """One event of every class and of every branch of the accountants, under replace-one or add-remove."""
    one = "replace-one"
    return {
        "poisson one-sided": events.PoissonRoots(
            relation="add-remove", noise_stddev=2.0, clipping_norm=1.0, sampling_probability=0.1,
            d_plus=1, d_minus=0,
        ),
        "poisson two-sided": events.PoissonRoots(
            relation="add-remove", noise_stddev=8.0, clipping_norm=1.0, sampling_probability=0.2,
            d_plus=4, d_minus=3,
        ),
        "poisson symmetric": events.PoissonRoots(
            relation=one, noise_stddev=6.0, clipping_norm=1.0, sampling_probability=0.2,
            d_plus=3, d_minus=3,
        ),
        "fixed, one root": events.FixedSizeRoots(
            relation=one, noise_stddev=3.0, clipping_norm=1.0, population=100, batch_size=30,
            changed_roots=1,
        ),
        "fixed, three roots": events.FixedSizeRoots(
            relation=one, noise_stddev=12.0, clipping_norm=1.0, population=100, batch_size=30,
            changed_roots=3,
        ),
        "gaussian": events.GaussianRelease(relation=one, noise_stddev=3.0, sensitivity=1.5),
        "contractive": events.ContractiveIteration(
            relation=one, noise_stddev=4.0, sensitivity=1.0, num_hops=5, contraction=0.8
        ),
        "gumbel": events.GumbelTopK(
            relation=one, scale=20.0, score_sensitivity=1.0, num_selected=2
        ),
        "laplace": events.LaplaceRelease(relation=one, scale=5.0, sensitivity=1.0),
        "response": events.RandomizedResponse(
            relation="add-remove", one_if_one=0.6, one_if_zero=0.3
        ),
    }  # fmt: skip
