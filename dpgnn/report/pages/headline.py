"""One finding of docs/results.md, and how findings are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpgnn.report.figures.drawing import Picture
from dpgnn.report.statistics.pairs import Pair

FOLDER = "findings"  # of docs/figures


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One finding.

    Attributes:
        title: the question.
        claim: the answer, in a sentence made from records.
        more: what limits or explains it.
        picture: figure of the numbers behind it; a name without a folder is in docs/figures.
        where: the picture's folder below docs/figures.
        evidence: (words, link below docs).
        overturn: what would make the claim false.
        pairs: words -> the differences behind the claim.
        tuned: the same of both sides tuned alike, where both are.
    """

    title: str
    claim: str
    more: str
    picture: Picture
    where: str = FOLDER
    evidence: tuple[tuple[str, str], ...]
    overturn: str
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    tuned: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


def lines_of(made: Sequence[Headline], pages: Collection[str]) -> list[str]:
    """The findings as Markdown.

    Args:
        made: the findings.
        pages: names below docs/results; evidence on other pages is left out.
    """
    lines: list[str] = []
    for number, item in enumerate(made, 1):
        links = ", ".join(
            f"[{words}]({link})"
            for words, link in item.evidence
            if not link.startswith("results/") or link[8:].partition(".md")[0] in pages
        )
        folder = f"figures/{item.where}/" if item.where else "figures/"
        said = f"**{item.claim}** {item.more}".rstrip()
        lines += [
            f"### {number}. {item.title}", "",
            f"{said} *Evidence:* {links}. *Would overturn it:* {item.overturn}", "",
            f"![{_alt(item)}]({folder}{item.picture.name}.png)", "",
        ]  # fmt: skip
    return lines


def _alt(item: Headline) -> str:
    """The picture's title; not the heading again."""
    return item.picture.title if item.picture.title != item.title else "Differences, with intervals"


def range_text(numbers: Iterable[int]) -> str:
    """The smallest and the largest number, or the only one."""
    found = sorted(set(numbers))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
