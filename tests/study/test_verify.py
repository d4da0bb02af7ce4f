"""Every byte of a list of checksums, and of what it lists, counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpgnn.core.checksums import write_checksums
from dpgnn.study.verify import Group, is_whole, states


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """A list of two files of a job, of a third that it made besides, and of one below."""
    names = ("report.html", "metrics.json", "tables/a.csv", "tables/b.csv")
    files = tuple(tmp_path / name for name in names)
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    write_checksums(tmp_path / "checksums.sha256", files)
    (tmp_path / "tables" / ".snakemake_timestamp").touch()  # as Snakemake leaves it
    folders = (tmp_path / "tables",)
    return Group(listed=tmp_path / "checksums.sha256", files=files[:2], folders=folders)


def test_a_flip_in_any_byte_of_a_list_or_a_file_is_found(group: Group) -> None:
    assert {item.state for item in states(group)} == {"ok"}
    seen = 0
    for path in [group.listed, *(item.path for item in states(group))]:
        whole = path.read_bytes()
        for place in range(len(whole)):
            for bit in (0, 2, 5):  # 5 is the case of a letter
                flipped = bytes([whole[place] ^ 1 << bit])
                path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
                assert not is_whole(group), (path.name, place, bit)
                seen += 1
        path.write_bytes(whole)
    assert seen >= 900
    assert is_whole(group)


def test_a_file_whose_line_is_gone_is_said_to_have_no_checksum(group: Group) -> None:
    lines = group.listed.read_text().splitlines(keepends=True)
    group.listed.write_text("".join(lines[:-1]))
    (found,) = [item for item in states(group) if item.state != "ok"]
    assert (found.path.name, found.state) == ("b.csv", "no checksum")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.partition("\n")[2],
        lambda text: text + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\x0b"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n",
        lambda text: "".join(reversed(text.splitlines(keepends=True))),
        lambda text: text.upper(),
        lambda text: "",
    ],
)
def test_a_list_in_another_form_is_found(change: object, group: Group) -> None:
    group.listed.write_bytes(change(group.listed.read_text()).encode())  # type: ignore[operator]
    assert not is_whole(group)
