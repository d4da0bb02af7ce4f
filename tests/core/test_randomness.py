from __future__ import annotations

import secrets

import numpy as np
import pytest
from randomgen import ChaCha

from dpgnn.core.randomness import PUBLIC_STREAMS, SECRET_STREAMS, FreshSecrets, Streams

KEY = {"dataset": "d", "entry": "e", "repeat": 0}


def test_a_study_repeats_every_stream() -> None:
    streams = Streams(root_seed=0, axes=KEY)
    for name in (*SECRET_STREAMS, "weights"):
        assert streams.numpy(name).random() == streams.numpy(name).random()
    assert streams.recorded() == {"kind": "study", "root_seed": 0}


@pytest.mark.parametrize("name", [*SECRET_STREAMS, "noise/encoder"])
def test_a_release_never_repeats_a_secret_stream_and_records_no_seed(name: str) -> None:
    streams = Streams(root_seed=0, axes=KEY, randomness="release")
    assert streams.numpy(name).random() != streams.numpy(name).random()
    with pytest.raises(ValueError, match="cryptographic"):
        streams.torch(name)
    with pytest.raises(ValueError, match="must have no seed"):
        streams.seed(name)
    assert streams.recorded() == {"kind": "release", "root_seed": None}


@pytest.mark.parametrize("name", [*SECRET_STREAMS, "noise/encoder"])
def test_a_secret_stream_is_a_cryptographic_generator_keyed_by_the_system(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked = []
    monkeypatch.setattr(secrets, "randbits", lambda bits: asked.append(bits) or len(asked))
    streams = Streams(root_seed=0, axes=KEY, randomness="release")
    for key in (1, 2):
        drawn = streams.numpy(name)
        assert asked == [256] * key
        expected = ChaCha(key=key, rounds=20)
        assert type(drawn.bit_generator) is ChaCha
        assert np.array_equal(drawn.bit_generator.random_raw(64), expected.random_raw(64))


def test_a_release_repeats_public_streams() -> None:
    streams = Streams(root_seed=0, axes=KEY, randomness="release")
    assert streams.numpy("weights").random() == streams.numpy("weights").random()


def test_streams_with_their_own_secrets_share_the_public_ones() -> None:
    streams = Streams(root_seed=0, axes=KEY)
    first, second = (streams.with_own_secrets(run=number) for number in range(2))
    for name in PUBLIC_STREAMS:
        assert first.seed(name) == second.seed(name) == streams.seed(name)
    for name in SECRET_STREAMS:
        assert len({first.seed(name), second.seed(name), streams.seed(name)}) == 3
    audited = FreshSecrets(root_seed=0, axes=KEY, secret_seed=1)
    own = audited.with_own_secrets(run=1)
    assert own.seed("weights") == audited.seed("weights")
    assert own.seed("noise") != audited.seed("noise")


def test_secret_normals_have_the_right_law() -> None:
    from scipy.stats import kstest

    draws = Streams(root_seed=0, axes=KEY, randomness="release").numpy("noise")
    # false alarms: one in a million
    assert kstest(draws.standard_normal(20_000), "norm").pvalue > 1e-6
    assert isinstance(draws, np.random.Generator)


def test_an_audit_repeats_the_draws_of_a_release_and_changes_only_what_is_secret() -> None:
    def drawn(secret_seed: int, stream: str) -> list[float]:
        streams = FreshSecrets(root_seed=0, axes=KEY, secret_seed=secret_seed, randomness="release")
        assert streams.is_secret(stream) == (stream == "noise")
        return streams.numpy(stream, step=1).random(4).tolist()

    assert drawn(1, "noise") == drawn(1, "noise") != drawn(2, "noise")
    assert drawn(1, "sampler") == drawn(2, "sampler")
    with pytest.raises(ValueError, match="nosie"):
        drawn(1, "nosie")
