"""The configuration and code that a study's records would state now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from dpgnn import methods
from dpgnn.core.storage import sha256_json
from dpgnn.methods.base import Performance
from dpgnn.run.specification import RunInputs, config_of, method_code
from dpgnn.study.study import RunKey, Study
from dpgnn.study.tiers import epsilon_value


class Wanted:
    """The configuration and code of a study's runs.

    Args:
        study: whose runs.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._entry = cache(lambda entry, dataset: study.entries[entry].for_dataset(dataset))
        self._code = cache(lambda entry, dataset: code_of(study, entry, dataset))

    def inputs(self, key: RunKey, device: str = "cpu") -> RunInputs:
        """The inputs of a run that the study states; `study.inputs` adds graph, split, sample and hashes."""
        config = self._study.config
        return RunInputs(
            key={"study": self._study.name, **key.axes},
            entry=self._entry(key.entry, key.dataset),
            epsilon=epsilon_value(key.epsilon),
            delta=self._study.delta_for(key.entry, key.dataset),
            graph=cast(Any, None),
            split=cast(Any, None),
            prepared=None,
            hashes={},
            population=self._study.population_for(key.entry, key.dataset),
            repeats_paper=bool(config.paper),
            root_seed=config.root_seed,
            randomness=config.randomness,
            performance=Performance(
                device=device, num_threads=config.num_threads, num_processes=config.num_processes
            ),
        )

    def made(self, record: Mapping[str, Any], key: RunKey) -> bool:
        """Whether a record has the configuration and code that its run would have now.

        Inputs are not compared, because they may not exist yet.
        """
        same_code = record.get("code_sha256") == self._code(key.entry, key.dataset)
        return same_code and self.states(record.get("config_sha256"), key)

    def states(self, config_sha256: str | None, key: RunKey) -> bool:
        """Whether the study states a configuration of this hash for a run."""
        return config_sha256 == self.config_sha256(key)

    def config_sha256(self, key: RunKey) -> str:
        """Hash of the configuration that the study states for a run."""
        return sha256_json(config_of(self.inputs(key)))


def code_of(study: Study, entry: str, dataset: str | None = None) -> str:
    """Hash of the code that decides an entry's records.

    Args:
        dataset: its options for this one may name code of the user's own; None takes the entry's first.
    """
    return with_own_code(study, entry, method_code(study.entries[entry].method), dataset)


def with_own_code(study: Study, entry: str, code: str, dataset: str | None = None) -> str:
    """A hash of the package's code joined with that of the user's code that an entry runs, if any."""
    stated = study.entries[entry]
    if methods.get(stated.method).outside_code is None:
        return code
    if dataset is None:
        dataset = next((key.dataset for key in study.keys if key.entry == entry), "")
    return methods.get(stated.method).with_outside(code, stated.for_dataset(dataset))
