"""Whatever stands in an own graph's files: a valid graph, or problems of one line each; nothing else happens.

`make test` tries some hundred files of each kind, `make test-slow` 2,000.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgnn.data.custom import check
from dpgnn.data.custom.read import problems_of, read_folder

NODES = "id,a,b,label,split\nn1,1,0.5,0,train\nn2,2,0.25,1,val\nn3,0,1e3,0,test\nn4,1,1,1,train\n"
EDGES = "source,target\nn1,n2\nn2,n3\nn3,n4\n"
YAML = "task: multiclass\nnum_classes: 2\ndirected: false\ndrop_duplicates: true\ndrop_self_loops: true\n"

CELL = st.one_of(
    st.sampled_from(
        ["", "0", "1", "-1", "2.5", "nan", "inf", "1e400", "9" * 25, "n1", "train", "test", "é", '"', '""',
         "'", "a,b", "\x00", "\ufeff", "true", "null", "1_000", "0x10", " 1", "=1+1", "\u202e", "١"]
    ),
    st.text(max_size=4),
)  # fmt: skip
NAME = st.one_of(
    st.sampled_from(
        ["id", "label", "label_0", "label_1", "split", "source", "target", "a", "b", ""]
    ),
    st.text(max_size=3),
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with some bytes changed, taken out, doubled or put in."""
    found = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(found)))
        match draw(st.sampled_from(["change", "cut", "drop", "insert", "double"])):
            case "change" if at < len(found):
                found[at] ^= draw(st.integers(1, 255))
            case "cut":
                del found[at:]
            case "drop":
                del found[at : at + draw(st.integers(1, 8))]
            case "double":
                found[at:at] = found[at : at + 16]
            case _:
                found[at:at] = draw(st.binary(max_size=8))
    return bytes(found)


@st.composite
def table(draw: st.DrawFn, whole: str) -> bytes:
    """A CSV table: the whole one damaged, or one of odd names and cells."""
    if draw(st.booleans()):
        return draw(damaged(whole.encode()))
    names = draw(st.lists(NAME, max_size=6))
    width = len(names) + draw(st.sampled_from([0, 0, 0, 1, -1]))
    rows = draw(
        st.lists(st.lists(CELL, min_size=max(width, 0), max_size=max(width, 0)), max_size=5)
    )
    return "\n".join(",".join(row) for row in [names, *rows]).encode("utf-8", "replace")


@st.composite
def parquet(draw: st.DrawFn, whole: dict[str, Any]) -> bytes:
    """A Parquet table: columns of odd types, then perhaps damaged."""
    columns = dict(whole)
    count = len(next(iter(whole.values())))
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.one_of(st.sampled_from(sorted(whole)), NAME))
        columns[name] = draw(st.sampled_from([
            ["x"] * count, [None] * count, [[1]] * count, [{"a": 1}] * count, [b"\xff"] * count,
            [2**62] * count, [float("nan")] * count, [True] * count, [-1] * count,
            pa.array([1] * count, pa.decimal256(50)), pa.array([0] * count, pa.timestamp("ns")),
            pa.array([1] * count, pa.float16()), pa.array(["n1"] * count).dictionary_encode(),
        ]))  # fmt: skip
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return draw(damaged(file.getvalue()))


@st.composite
def arrays(draw: st.DrawFn) -> bytes:
    """graph.npz: arrays of odd shapes and types, then perhaps damaged."""
    found: dict[str, Any] = {
        "x": np.ones((4, 2), np.float32), "y": np.array([0, 1, 0, 1]),
        "edge_index": np.array([[0, 1, 2], [1, 2, 3]]), "train_mask": np.array([1, 1, 0, 0], bool),
    }  # fmt: skip
    for _ in range(draw(st.integers(0, 2))):
        name = draw(
            st.sampled_from([*found, "x_data", "x_indices", "x_indptr", "x_shape", "val_mask"])
        )
        shape = draw(st.lists(st.integers(0, 5), max_size=3))
        kind = draw(st.sampled_from(["f2", "f8", "c8", "i1", "u8", "?", "S3", "U2", "M8[s]"]))
        found[name] = np.full(shape, draw(st.sampled_from([0, 1, 2, 100])), "i8").astype(kind)
    if draw(st.integers(0, 9)) == 0:
        found["x_shape"] = np.array([4, draw(st.sampled_from([-1, 2**31, 2**60]))])
    file = io.BytesIO()
    np.savez(file, **found)
    return draw(damaged(file.getvalue()))


YAML_VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAME, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def options(draw: st.DrawFn) -> bytes:
    """graph.yaml: damaged, or odd values of its keys and others."""
    if draw(st.booleans()):
        return draw(damaged(YAML.encode()))
    import yaml

    keys = ["task", "num_classes", "classes", "features", "directed", "drop_duplicates", "other"]
    found = draw(st.dictionaries(st.sampled_from(keys), YAML_VALUE, max_size=4))
    return str(yaml.safe_dump(found, allow_unicode=True)).encode("utf-8", "replace")


COLUMNS = {"a": [1.0, 2.0, 0.0, 1.0], "b": [1, 0, 1, 0], "label": [0, 1, 0, 1]}
ENDS = {"source": [0, 1, 2], "target": [1, 2, 3]}
CSV = {"nodes.csv": NODES.encode(), "edges.csv": EDGES.encode(), "graph.yaml": YAML.encode()}
KINDS: dict[str, tuple[dict[str, bytes], dict[str, st.SearchStrategy[bytes]]]] = {
    "CSV": (CSV, {"nodes.csv": table(NODES), "edges.csv": table(EDGES)}),
    "Parquet": ({}, {"nodes.parquet": parquet(COLUMNS), "edges.parquet": parquet(ENDS)}),
    "npz": ({}, {"graph.npz": arrays()}),
    "YAML": (CSV, {"graph.yaml": options()}),
}


def holds(kept: dict[str, bytes], drawn: dict[str, bytes]) -> None:
    """A graph without a problem, or problems in one line each."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "mine"
        folder.mkdir()
        for name, content in {**kept, **drawn}.items():
            (folder / name).write_bytes(content)
        try:
            graph, problems = read_folder(folder, "mine")
        except (ValueError, OSError) as error:
            graph, problems = None, [str(error)]
        assert (graph is None) == bool(problems)
        for text in problems:
            assert text
            assert len(text.splitlines()) == 1, text
            assert len(text) < 2000
            assert "Traceback" not in text
        if graph is not None:
            assert problems_of(folder) == []


def tried(count: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_a_graph_or_one_line_a_problem(kind: str) -> None:
    kept, drawn = KINDS[kind]
    tried(150)(given(st.fixed_dictionaries(drawn))(lambda files: holds(kept, files)))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_thousand_hostile_files(kind: str) -> None:
    kept, drawn = KINDS[kind]
    tried(2000)(given(st.fixed_dictionaries(drawn))(lambda files: holds(kept, files)))()


def test_the_whole_files_are_graphs() -> None:
    holds(CSV, {})
    assert check.Problems().texts == []
