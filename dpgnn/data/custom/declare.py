"""The line of graph.yaml that declares the classes of a user's graph, ready to paste."""

from __future__ import annotations

from pathlib import Path

from dpgnn.data.custom.columns import texts_of
from dpgnn.data.custom.labels import WHOLE
from dpgnn.data.custom.options import graph_file, read_options


def undeclared_classes(folder: Path, num_classes: int) -> str:
    """The line to paste; "" if the classes are already declared.

    Names are in alphabetical order, the order of their numbers without a declaration.

    Args:
        folder: of a valid user's graph.
        num_classes: counted from its labels.
    """
    options = read_options(folder)
    if options.stated_classes is not None or options.task == "multilabel":
        return ""
    names = _names(graph_file(folder))
    if any(not WHOLE.fullmatch(name) for name in names):
        named = sorted(name for name in names if name != "-1")
        return f"classes: [{', '.join(map(_quoted, named))}]"
    return f"num_classes: {num_classes}"


def _names(path: Path) -> set[str]:
    """Labels of a table as texts; none for a file of arrays, whose labels are numbers."""
    import polars as pl

    if path.suffix == ".csv":
        column = pl.scan_csv(path, infer_schema=False).select("label").collect()
    elif path.suffix == ".parquet":
        column = pl.scan_parquet(path).select("label").collect()
    else:
        return set()
    return {name for name in texts_of(column["label"].unique()) if name}


def _quoted(name: str) -> str:
    """A name as YAML; quoted unless it has only letters, digits, - and _ and starts with a letter."""
    plain = name.replace("-", "a").replace("_", "a").isalnum() and name[0].isalpha()
    reads_as_else = name.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return name if plain and not reads_as_else else "'" + name.replace("'", "''") + "'"
