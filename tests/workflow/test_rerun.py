"""The command beside a number, pasted: the run is made again and gives the record's metrics.

Inputs are the record's to the bit, plans to one part in ten million. Metrics are on the same kind of
processor; another one rounds matrix products in another way, which moved single runs by up to 0.006.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from helpers import copy_repository, run_tool

from dpgnn import methods
from dpgnn.records.archive import read_archive
from dpgnn.study.study import load_study

# a run of every method on a small graph, none of the first repeat
RUNS = (
    ("baselines", "cora.public/sage/eps=inf/5"),
    ("caribou", "cora.fixed/mlp/eps=inf/5"),
    ("caribou", "cora.fixed/gcn/eps=inf/5"),
    ("caribou", "cora.fixed/gap/eps=1/5"),
    ("caribou", "cora.fixed/gap-ndp/eps=8/5"),
    ("caribou", "cora.fixed/dpdgc/eps=1/5"),
    ("caribou", "cora.fixed/pertgraph/eps=8/5"),
    ("caribou", "cora.fixed/edgerand/eps=4/5"),
    ("caribou", "cora.fixed/lapgraph/eps=8/5"),
    ("caribou", "cora.fixed/caribou/eps=8/5"),
    ("caribou", "cora.fixed/released-e8/eps=8/5"),
    ("caribou", "cora.fixed/dp_mlp/eps=8/5"),
    ("dpar", "cora_ml.inductive/em0-sound/eps=8/5"),
    ("dpar", "cora_ml.inductive/sage/eps=8/5"),
    ("drw", "cora.public/drw-256-record/eps=8/1"),
    ("progap", "cora.public/lpgnet-2-paper/eps=8/1"),
    ("progap", "cora.whole/progap/eps=8/1"),
    ("progap", "cora.whole/heterpoisson/eps=8/1"),
    ("headtohead", "cora.bounded/dp_gcn-bounded/eps=8/1"),
    ("headtohead", "cora.bounded/dp_mlp-replace-mean1/eps=8/1"),
    ("headtohead", "cora.whole/dp_linear/eps=8/1"),
    ("headtohead", "cora.whole/votes/eps=8/1"),
    ("headtohead", "cora.whole/votes_edge/eps=8/1"),
    ("headtohead", "cora.whole/acc-dp_linear/eps=4/1"),
)


def same(made: Any, kept: Any) -> bool:
    """Whether two plans agree: words and counts exactly, numbers to one part in ten million.

    Compositions have paid for the rounding of their transform since some records were made, which moved noise
    in the ninth digit.
    """
    if isinstance(kept, dict):
        return made.keys() == kept.keys() and all(same(made[key], kept[key]) for key in kept)
    if isinstance(kept, list):
        return len(made) == len(kept) and all(same(*pair) for pair in zip(made, kept))
    if isinstance(kept, float):
        return math.isclose(made, kept, rel_tol=1e-7)
    return bool(made == kept)


def recorded_methods(repository: Path) -> set[str]:
    """Methods of which a record is committed; one that is added has none yet."""
    found = set()
    for archive in (repository / "docs" / "reference").glob("*/runs.parquet"):
        records = (json.loads(record) for record, _ in read_archive(archive).values())
        found |= {record["entry"]["method"] for record in records}
    return found


def test_every_method_with_a_committed_record_has_a_run(repository: Path) -> None:
    used = set()
    for study, run in RUNS:
        loaded = load_study(repository / f"workflow/studies/{study}.yaml", "M")
        assert run in {key.folder for key in loaded.keys}
        used.add(loaded.entries[run.split("/")[1]].method)
    assert used == recorded_methods(repository) <= set(methods.TABLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, mirror: Path) -> Path:
    """A copy of the repository with raw files at hand; what one run made the next may use."""
    return copy_repository(tmp_path_factory.mktemp("rerun"))


@pytest.mark.slow
@pytest.mark.parametrize(("study", "run"), RUNS)
def test_a_run_of_the_reference_is_made_again(
    study: str,
    run: str,
    folder: Path,
    mirror: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DPGNN_MIRROR", str(mirror))
    kept = json.loads(read_archive(repository / f"docs/reference/{study}/runs.parquet")[run][0])
    run_tool(folder, "dpgnn", "run", study, "--tier", "M", "--cell", run)
    made = folder / "results" / "studies" / study / "runs" / run / "record.json"
    record = json.loads(made.read_text(encoding="utf-8"))
    assert record["config_sha256"] == kept["config_sha256"]
    compared = set(kept["inputs"])
    if (
        "minimum_degree" in kept["facts"]["depends_on_structure"]
        and kept["entry"]["mode"] == "sound"
    ):
        # the sample's file held the smallest degree when the record was made; sound runs measure none now
        compared.remove("prepared_sha256")
    if "public" in record["key"]["setting"]:
        # the split's file held the study's seed, which a published split does not use
        compared.remove("split_sha256")
    for name in compared:
        assert record["inputs"][name] == kept["inputs"][name], name
    assert same(record["plan"], kept["plan"]), (record["plan"], kept["plan"])
    for part in ("val", "test"):
        if part in kept["metrics"]:
            stated = kept["metrics"][part]["accuracy"]
            assert record["metrics"][part]["accuracy"] == pytest.approx(stated, abs=0.01)
