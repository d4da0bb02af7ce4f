"""The attacks of a study in one Parquet file, `attacks.parquet`, as they are committed below docs/reference.

A row is a file of `dpgnn attack`: its name and its text, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.storage import read_parquet, write_parquet, write_text

NAME = "attacks.parquet"
COLUMNS = ["file", "text"]


def read_attack_texts(folder: str | Path) -> dict[str, str]:
    """File name -> text of the attacks in a folder, sorted; a file beside the archive replaces its row.

    Args:
        folder: holds an archive, files of `dpgnn attack`, both or neither.

    Raises:
        DamagedFileError: the archive is damaged.
    """
    texts: dict[str, str] = {}
    path = Path(folder) / NAME
    if path.exists():
        table = read_parquet(path, COLUMNS, remedy="pack it again, or take it from git")
        texts.update(zip(*(table.column(name).to_pylist() for name in COLUMNS)))
    for file in Path(folder).glob("*.json"):
        texts[file.name] = file.read_text(encoding="utf-8")
    return dict(sorted(texts.items()))


def pack_attacks(folder: str | Path) -> tuple[int, int]:
    """Put the files of a folder into its archive, beside those it has, and remove them.

    The same texts give the same bytes. Files are removed only after the archive was written.

    Returns:
        attacks in the archive now, and how many of them were files.

    Raises:
        ValueError: there is nothing to keep.
    """
    import pyarrow as pa

    files = sorted(Path(folder).glob("*.json"))
    texts = read_attack_texts(folder)
    remedy = "`dpgnn attack --out FOLDER` writes some"
    require(bool(texts), str(folder), "hold attacks", "none", remedy)
    columns = [list(texts), list(texts.values())]
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
    write_parquet(Path(folder) / NAME, table)
    for file in files:
        file.unlink()
    return len(texts), len(files)


def unpack_attacks(folder: str | Path, out: str | Path) -> int:
    """Write the attacks of a folder's archive as files; returns how many.

    Raises:
        ValueError: a name that leads out of the folder.
    """
    texts = read_attack_texts(folder)
    for name in texts:
        require(Path(name).name == name, "attack's file", "be a name without a folder", name)
    for name, text in texts.items():
        write_text(Path(out) / name, text)
    return len(texts)
