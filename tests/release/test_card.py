"""The model card: what a stranger reads of a bundle, whole; and that it tells nothing of private labels."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from golden import assert_golden
from models_in_memory import small

import dpgnn
from dpgnn.release.card import html_card, markdown_card, sections


@pytest.fixture(scope="module")
def released() -> dpgnn.Model:
    return small(seed=None, classes=("left", "<b>right</b>"), population=(90, 30))


def test_the_card_of_a_release(released: dpgnn.Model) -> None:
    text = re.sub(r"dpgnn \d+\.\d+\.\d+\S*", "dpgnn VERSION.", markdown_card(released))
    assert_golden("MODEL_CARD.md", text)


def test_a_release_states_no_accuracy_and_a_model_with_a_seed_says_it_is_none(
    released: dpgnn.Model,
) -> None:
    told = dict(sections(released))
    assert told["Accuracy"][0].startswith("Not stated")
    assert "A release." in told["What it is"][0]
    seeded = small(seed=1)
    assert "No release" in dict(sections(seeded))["What it is"][0]


class Words(HTMLParser):
    """Texts and tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_says_what_the_text_says_and_loads_nothing(released: dpgnn.Model) -> None:
    page = Words()
    page.feed(html_card(released))
    assert page.tags <= {"html", "head", "meta", "title", "body", "h1", "h2", "p"}
    for heading, paragraphs in sections(released):
        assert heading in page.texts
        assert set(paragraphs) <= set(page.texts)
