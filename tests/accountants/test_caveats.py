"""The registry of caveats and docs/soundness.md hold the same ids; each paragraph says what to do."""

import re
from pathlib import Path

import pytest

from dpgnn.accountants.caveats import CAVEATS

DOCS = Path(__file__).parents[2] / "docs"


def sections():
    text = (DOCS / "soundness.md").read_text()
    parts = re.split(r"^### `([a-z-]+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def test_every_caveat_is_a_heading_and_every_heading_a_caveat():
    assert sorted(sections()) == sorted(CAVEATS)


@pytest.mark.parametrize("name", sorted(CAVEATS))
def test_every_paragraph_says_what_happens_and_what_the_sound_mode_does(name):
    text = sections()[name]
    assert len(text.split()) > 25
    kind = "voids" if CAVEATS[name].voids else "narrows"
    assert f"**{kind}**" in text
    assert "Instead:" in text


def test_every_test_that_the_documents_name_exists():
    root = DOCS.parent
    for document in ("accounting.md", "soundness.md"):
        text = (DOCS / document).read_text()
        for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
            source = root / path
            assert source.exists(), f"{document} names {path}"
            if name:
                assert f"def {name}(" in source.read_text(), f"{document} names {path}::{name}"


def test_every_theorem_of_the_accounting_document_names_its_test():
    text = (DOCS / "accounting.md").read_text()
    theorems = re.split(r"^## (Theorem \d+)", text, flags=re.MULTILINE)
    bodies = dict(zip(theorems[1::2], theorems[2::2]))
    assert len(bodies) >= 9
    for name, body in bodies.items():
        assert "Checked by" in body, name
        assert "Status:" in body, name
        assert "`tests/" in body, name
