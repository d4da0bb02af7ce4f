"""Streams: every draw of a run comes from a named stream, seeded (study) or secret (release).

`study`: seeded, recorded, repeatable; only for public data, because the seed reveals the noise. `release`:
every draw that a proof needs secret (noise, batch coins, Gumbel, Laplace, randomised response) comes from a
cryptographic generator keyed by the operating system; nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpgnn.core import seeds
from dpgnn.core.checks import one_of

if TYPE_CHECKING:
    import torch

Randomness = Literal["study", "release"]

# a proof needs these secret; the others (weights, sampler keys, splits) may be published
SECRET_STREAMS = ("noise", "batches", "gumbel", "laplace", "response", "edges", "selection")
PUBLIC_STREAMS = (
    "weights", "dropout", "sampler", "resample", "spare", "classes", "thresholds", "random-rows",
    "column-cap", "clipping-norm",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The named streams of one run.

    Attributes:
        root_seed: the study's seed.
        axes: the run's key (dataset, setting, entry, epsilon, repeat); streams of different runs differ.
        randomness: "study" or "release".
        secret_axes: further axes of secret streams alone.
    """

    root_seed: int
    axes: Mapping[str, str | int]
    randomness: Randomness = "study"
    secret_axes: Mapping[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("randomness", self.randomness, ("study", "release"))

    def is_secret(self, stream: str) -> bool:
        """Whether the stream is drawn from the operating system and cannot be replayed.

        Args:
            stream: a name of `core/randomness.py`.

        Raises:
            ValueError: there is no such stream.
        """
        name = stream.split("/")[0]
        # a misspelt name of a secret stream would give a repeatable stream
        one_of("stream", name, (*SECRET_STREAMS, *PUBLIC_STREAMS))
        return self.randomness == "release" and name in SECRET_STREAMS

    def seed(self, stream: str, **extra: str | int) -> int:
        """A 128-bit seed of a stream that may be published.

        Args:
            stream: a name of `core/randomness.py`.
            extra: further axes.

        Raises:
            ValueError: the stream is secret in a release, so it has no seed.
        """
        if self.is_secret(stream):
            raise ValueError(
                f"stream {stream} must have no seed in a release, got a request for one"
            )
        return seeds.child_seed(self.root_seed, stream, **self._axes(stream), **extra)

    def with_own_secrets(self, **axes: str | int) -> Self:
        """Streams that share every public coin with these and have secret coins of their own.

        Guarantee: what is made with them has one law, given the public coins, whatever the axes.

        Args:
            axes: such as the number of a run among several.
        """
        return replace(self, secret_axes={**self.secret_axes, **axes})

    def _axes(self, stream: str) -> dict[str, str | int]:
        secret = stream.split("/")[0] in SECRET_STREAMS
        return {**self.axes, **(self.secret_axes if secret else {})}

    def numpy(self, stream: str, **extra: str | int) -> np.random.Generator:
        """A numpy generator; for a secret stream a ChaCha20 keystream keyed by the system.

        Guarantee: in a release a secret stream is keyed by the operating system, is not recorded, and two
        calls are independent. Otherwise the same seed gives the same bytes.

        Args:
            stream: a name of `core/randomness.py`.
            extra: further axes, such as stage and step.

        Raises:
            ValueError: the stream is unknown.
        """
        if self.is_secret(stream):
            import secrets

            from randomgen import ChaCha

            return np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20))
        return np.random.Generator(np.random.PCG64DXSM(self.seed(stream, **extra)))

    def torch(self, stream: str, **extra: str | int) -> torch.Generator:
        """A CPU torch generator for a stream that may be published, e.g. `weights`.

        Args:
            stream: a name of `core/randomness.py`.
            extra: further axes.

        Raises:
            ValueError: the stream is secret; draw it with `numpy` instead.
        """
        import torch

        if self.is_secret(stream):
            raise ValueError(
                f"stream {stream} must be drawn with Streams.numpy in a release, got torch; "
                "torch's generators are not cryptographic"
            )
        return torch.Generator().manual_seed(self.seed(stream, **extra) % 2**63)

    def recorded(self) -> dict[str, Any]:
        """The randomness as in the record; a release records no seed."""
        if self.randomness == "release":
            return {"kind": "release", "root_seed": None}
        return {"kind": "study", "root_seed": self.root_seed}


@dataclass(frozen=True, kw_only=True)
class FreshSecrets(Streams):
    """Streams with a separate seed for the secret ones: runs share weights and keys, but not noise.

    For audits and queries. With `randomness` "release" a run draws like a release but from seeded bits, so
    that the same code can be observed and repeated; its results may not be released.

    Attributes:
        secret_seed: of noise, batches and other draws that a proof needs secret.
    """

    secret_seed: int

    def seed(self, stream: str, **extra: str | int) -> int:
        """A 128-bit seed of the stream."""
        secret = stream.split("/")[0] in SECRET_STREAMS
        root = self.secret_seed if secret else self.root_seed
        return seeds.child_seed(root, stream, **self._axes(stream), **extra)

    def numpy(self, stream: str, **extra: str | int) -> np.random.Generator:
        """A seeded generator for every stream."""
        self.is_secret(stream)  # refuses unknown names
        return np.random.Generator(np.random.PCG64DXSM(self.seed(stream, **extra)))
