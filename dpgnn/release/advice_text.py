"""Advice as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpgnn.records.archive import MAIN_STUDY

if TYPE_CHECKING:
    from dpgnn.release.advice import Advice, Advised


def as_text(found: Advice) -> str:
    """The advice as a table, with the numbers that were read."""
    asked, similar = found.asked, found.similar
    bounded = any(one.claim and one.claim.degree_bound for one in found.advised)
    sizes = "; ".join(
        f"{name} ({nodes:,} nodes, {edges:,} edges, {classes} classes)"
        for name, (nodes, edges, classes) in similar.items()
    )
    head = ("method", "protects", "answers may be shown to", "noise / sensitivity", *similar)
    rows = [head, *(_row(one, list(similar)) for one in found.advised if not one.reason)]
    lines = [
        f"{asked.nodes:,} nodes, {asked.edges:,} edges, {asked.classes} classes; unit {asked.unit}, "
        f"epsilon {asked.epsilon:g}, delta {asked.failure:.3g}.",
        "Only these numbers were read, not your graph. Accuracies are from public graphs.",
        f"Most similar of those with records: {sizes}.",
        f"Accuracy: mean of the committed runs at epsilon {found.epsilon} in percent, with its 95 % "
        "interval over splits. On another graph it may differ by more than that.",
        *(["Methods that need a degree bound ran on these graphs cut to it."] if bounded else []),
        "",
        *_columns(rows),
        "",
        f"Methods are entries of the study {MAIN_STUDY}; `Advised.options` and "
        f"workflow/studies/{MAIN_STUDY}.yaml hold their options.",
    ]
    lines += _copied_lines(found)
    without = [one for one in found.advised if one.reason]
    lines += ["", *(f"no plan: {one.title} ({one.entry}): {one.reason}" for one in without)]
    return "\n".join(lines).rstrip()


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _copied_lines(found: Advice) -> list[str]:
    """Options to copy, one line a method."""
    rows = [
        (one.entry, ", ".join(f"{k}={v}" for k, v in one.copied.options.items()) or "as stated",
         f"{100 * one.copied.gain:+.1f} [{100 * one.copied.low:.1f}, {100 * one.copied.high:.1f}]")
        for one in found.advised
        if one.copied is not None and not one.reason
    ]  # fmt: skip
    if not rows:
        return []
    return [
        "",
        "Options that did best on all public graphs, where they differ from the study's; copying them costs "
        "no privacy.",
        f"Gain: in points over the study's options at epsilon {found.epsilon}, on a public graph that the "
        "choice left out; mean and 95 % interval over graphs.",
        "",
        *_columns([("method", "options", "gain"), *rows]),
    ]


def _row(one: Advised, similar: list[str]) -> tuple[str, ...]:
    assert one.claim is not None
    shown = {"everyone": "everyone", "own-record": "the asked node", "none": "nobody"}[one.answers]
    bound = "" if one.claim.degree_bound is None else f" <= {one.claim.degree_bound}"
    noise = ", ".join(f"{name} {ratio:.3g}" for name, ratio in one.noise.items())
    scores = (_score(one.scores.get(name)) for name in similar)
    return (
        one.entry,
        f"{one.claim.privacy_unit}{bound}, {one.claim.relation}",
        shown,
        noise,
        *scores,
    )


def _score(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    mean = f"{100 * found['mean']:.1f}"
    if found["low"] is None:
        return f"{mean} (1 run)"
    return f"{mean} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"
