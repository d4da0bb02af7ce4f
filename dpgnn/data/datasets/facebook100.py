"""Facebook100: friendships inside one US college in 2005; name facebook-SCHOOL.

Counts after the recipe (nodes, directed edges, features, classes): Rutgers89 20021, 1219462, 376, 5;
UIllinois20 26406, 2117924, 501, 6.

Source: Traud et al. (2012), arXiv:1102.2166; recipe of GAP, Sajadmanesh et al. (2023),
arXiv:2203.00949, which CARIBOU follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import fail, require
from dpgnn.data.graph import Graph, clean_edges

if TYPE_CHECKING:
    from pathlib import Path

    from dpgnn.data.raw.files import RawFiles

# columns of local_info; the seventh, high school, is not used
STATUS, GENDER, MAJOR, MINOR, HOUSING, YEAR = range(6)
MIN_CLASS_SIZE = 1000


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read one school's .mat file and follow GAP's recipe.

    The label is the class year. Members without one are dropped, then years under 1,000 members, then
    self-loops, then members without a friend left. Features are the one-hot codes of status, gender,
    major, minor and housing over the whole school; 0 is missing and sets no column.

    Dropping small classes reads private labels, so claims carry the caveat `preprocessing`.
    """
    path = files.only_path()
    adjacency, info = read_school(path)
    year = info[:, YEAR]
    kept = np.flatnonzero(year > 0)
    classes, sizes = np.unique(year[kept], return_counts=True)
    classes = classes[sizes >= MIN_CLASS_SIZE]
    require(
        len(classes) > 0, f"{path}: class years", f"have {MIN_CLASS_SIZE} members or more", "none"
    )
    kept = kept[np.isin(year[kept], classes)]
    entries = sp.csr_array(adjacency)[kept][:, kept].tocoo()
    edges = clean_edges(entries.row, entries.col, len(kept))
    with_friends = np.unique(edges)
    edges = np.searchsorted(with_friends, edges)
    kept = kept[with_friends]
    return Graph(
        name=name,
        x=one_hot(info[:, : HOUSING + 1])[kept],
        edge_index=edges,
        y=np.searchsorted(classes, year[kept]).astype(np.int64),
        num_classes=len(classes),
    )


def read_school(path: Path) -> tuple[sp.csr_array, np.ndarray]:
    """A and local_info of a .mat file.

    Returns:
        adjacency: CSR, shape (num_members, num_members).
        info: int64, shape (num_members, 7): status, gender, major, minor, housing, year, high school;
            0 where missing.

    Raises:
        ValueError: not a MATLAB file, damaged, or without the two variables.
    """
    from scipy.io import loadmat

    try:
        found: dict[str, Any] = loadmat(path, variable_names=["A", "local_info"])
    except Exception as error:  # scipy raises many exception types for damaged bytes
        fail(
            str(path),
            "be a whole MATLAB 5 file",
            f"{type(error).__name__}: {error}",
            "fetch it again",
        )
    for name in ("A", "local_info"):
        require(name in found, f"{path}: variable {name}", "be in the file", sorted(found))
    adjacency, info = found["A"], found["local_info"]
    require(sp.issparse(adjacency), f"{path}: A", "be a sparse matrix", type(adjacency).__name__)
    size = adjacency.shape[0]
    require(adjacency.shape == (size, size), f"{path}: A", "be square", adjacency.shape)
    require(info.shape == (size, 7), f"{path}: local_info", f"have shape ({size}, 7)", info.shape)
    return sp.csr_array(adjacency), info.astype(np.int64)


def one_hot(codes: np.ndarray) -> sp.csr_array:
    """One column for each non-zero value of each column of `codes`, in ascending order of value.

    Args:
        codes: int64, shape (num_rows, num_columns); 0 is missing.

    Returns:
        float32 CSR, shape (num_rows, number of distinct non-zero values over the columns).
    """
    rows, columns, width = [], [], 0
    for column in codes.T:
        present = np.flatnonzero(column > 0)
        values = np.unique(column[present])
        rows.append(present)
        columns.append(width + np.searchsorted(values, column[present]))
        width += len(values)
    row, col = np.concatenate(rows), np.concatenate(columns)
    ones = np.ones(len(row), dtype=np.float32)
    return sp.csr_array((ones, (row, col)), shape=(len(codes), width))
