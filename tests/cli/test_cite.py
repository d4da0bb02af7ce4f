import argparse

import pytest

from dpgnn import methods
from dpgnn.cli import cite
from dpgnn.data.datasets.citations import bibtex_of, read_bibliography

STUDY = """\
name: toy
repeats: 1
datasets:
  chains-s: {settings: [public]}
  digits: {settings: [public]}
settings:
  public: {kind: random}
entries:
  mlp: {method: mlp, mode: nonprivate}
  gcn: {method: gcn, mode: nonprivate}
"""


def test_a_study_is_cited_with_its_data_sets_and_methods(tmp_path, capsys):
    path = tmp_path / "toy.yaml"
    path.write_text(STUDY)
    parser = argparse.ArgumentParser()
    cite.add_parser(parser.add_subparsers())
    args = parser.parse_args(["cite", str(path)])
    assert args.func(args) == 0
    found = capsys.readouterr().out
    assert "% data set chains-s\n@inproceedings{gu2020ignn," in found
    assert "@misc{alpaydin1998digits," in found
    assert "% method gcn\n@inproceedings{kipf2017semi," in found
    assert "no citation needed: mlp" in found
    assert "shchur" not in found


def test_a_work_used_twice_is_printed_once():
    found = bibtex_of(["photo", "cs"], {})
    assert found.count("@article{shchur2018pitfalls,") == 1
    assert "% data set photo, data set cs" in found


def test_the_bibliography_is_well_formed():
    for key, text in read_bibliography().items():
        assert text.count("{") == text.count("}"), key
        assert all(f" {name} = " in text for name in ("title", "author", "year")), key


@pytest.mark.parametrize("name", sorted(methods.TABLE))
def test_the_citation_of_every_method_is_in_the_bibliography(name):
    citation = methods.get(name).citation
    assert citation is None or f"{{{citation}," in bibtex_of([], {name: citation})


def test_an_unknown_key_lists_what_exists():
    with pytest.raises(ValueError, match=r"unknown citation 'nobody2020'; known: .*caribou"):
        bibtex_of([], {"gap": "nobody2020"})
