import json
import re

import pytest

from dpgnn.data import datasets
from dpgnn.data.datasets.citations import read_bibliography
from dpgnn.data.raw.sources import COLUMNS, read_sources, source_of


def test_every_data_set_of_the_table_has_a_row_and_the_other_way_round():
    families = {name[:-1] for name in datasets.TABLE if name.endswith("-*")}

    def entry(row):
        family = row.partition("-")[0] + "-"
        return family + "*" if family in families else row

    assert {entry(row) for row in read_sources()} == set(datasets.TABLE)


def test_a_family_stands_for_every_member():
    source = source_of("facebook-Penn94")
    assert source.name == "facebook-Penn94"
    assert source.files[0].mirror_path == "facebook100/raw/Penn94.mat"
    assert source.files[0].url.endswith("/Penn94.mat")
    assert datasets.entry_of("facebook-Penn94").module == "facebook100"


def test_every_row_states_licence_citation_and_well_formed_checksums():
    keys = set(read_bibliography())
    for source in read_sources().values():
        assert source.licence
        assert source.redistribute in ("yes", "no", "unclear")
        assert source.citation
        assert set(source.citation.split()) <= keys
        for raw in source.files:
            assert re.fullmatch(r"[0-9a-f]{64}|", raw.sha256)
            assert raw.mirror_path


@pytest.mark.data
def test_checksums_and_sizes_are_those_of_the_mirrors_manifest(mirror):
    manifest = json.loads((mirror / "MANIFEST.json").read_text())["datasets"]
    wanted = {file["path"]: file for item in manifest for file in item["files"]}
    ours = {raw.mirror_path: raw for source in read_sources().values() for raw in source.files}
    assert set(wanted) <= set(ours)
    for path, file in wanted.items():
        assert ours[path].sha256 == file["sha256"]
        assert ours[path].num_bytes == file["bytes"]


def test_a_member_of_a_family_is_letters_and_digits():
    with pytest.raises(ValueError, match=r"must be facebook-\* with letters and digits"):
        source_of("facebook-../../evil")


def test_an_unknown_data_set_lists_those_that_exist():
    with pytest.raises(ValueError, match=r"data set must be one of .*cora, .*got 'coro'"):
        datasets.load("coro", folder="unused", root_seed=0)


def test_a_missing_column_or_a_number_that_is_none_is_named(tmp_path):
    path = tmp_path / "sources.csv"
    path.write_text(",".join(COLUMNS[:-1]) + "\n")
    with pytest.raises(ValueError, match="no num_classes"):
        read_sources(path)
    path = tmp_path / "other.csv"
    path.write_text(",".join(COLUMNS) + "\n" + "a,1,f,m,u,,many,MIT,yes,k,,,,\n")
    with pytest.raises(ValueError, match="bytes of a must be a whole number or empty, got 'many'"):
        read_sources(path)


def test_counts_other_than_the_published_ones_are_refused(monkeypatch):
    import dataclasses

    wrong = dataclasses.replace(source_of("chains-s"), num_nodes=49)
    monkeypatch.setattr("dpgnn.data.raw.sources.source_of", lambda name: wrong)
    with pytest.raises(ValueError, match="num_nodes must be 49, the published number, got 48"):
        datasets.load("chains-s", folder="unused", root_seed=0)
