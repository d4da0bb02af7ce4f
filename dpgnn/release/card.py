"""The model card: a description of a bundle in plain words, made only from the record."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.release.certificate import not_covered
from dpgnn.release.words import SHOWN_TO

if TYPE_CHECKING:
    from dpgnn.release.released import Released

USE = (
    "It answers about nodes with the same features in the same order. It was checked for privacy, not for "
    "fairness or for harm from wrong answers."
)
DIRECTED = "Edges of its graph are directed: a question's edges are read as they are given, source to target."


def sections(model: Released) -> list[tuple[str, list[str]]]:
    """Headings and their paragraphs, as plain text.

    Guarantee: only the record's claims and public names are read; a release states no accuracy, because
    scores read private labels and are not covered.
    """
    claim, record = model.claim, model.record
    facts = record.facts
    scores = record.metrics.get("test", {})
    accuracy = "Not stated: scores on private labels are not covered by the claim."
    if scores and not claim.is_release:
        accuracy = (
            f"{100 * scores['accuracy']:.1f} % of {scores['num_nodes']} test nodes. This model is no "
            "release; the claim does not cover this figure."
        )
    kind = (
        "A release."
        if claim.is_release
        else "No release: it was made with a seed or without privacy."
    )
    return [
        ("What it is", [
            f"{record.entry['title']}, mode {record.entry['mode']}; a classifier of the nodes of a graph "
            f"with {facts['num_features']} features and {facts['num_classes']} classes. {kind}",
            f"Source: {record.source}. Made by dpgnn {record.versions['dpgnn']}.",
        ]),
        ("What it guarantees", claim.words.split("\n")),
        ("Who may see what", [
            "Everyone may see the weights and the other tensors of model.safetensors.",
            SHOWN_TO[claim.answers],
        ]),
        ("What is taken as public", list(claim.public) or ["Nothing beyond the method."]),
        ("What is not covered", not_covered(model)),
        ("Caveats", [f"{CAVEATS[name].title} ({name})." for name in claim.caveats] or ["None."]),
        ("Accuracy", [accuracy]),
        ("Use", [USE, *([DIRECTED] if model.directed_graph else [])]),
    ]  # fmt: skip


def markdown_card(model: Released) -> str:
    """MODEL_CARD.md."""
    lines = ["# Model card"]
    for heading, paragraphs in sections(model):
        lines += ["", f"## {heading}", *(f"\n{text}" for text in paragraphs)]
    return "\n".join(lines) + "\n"


def html_card(model: Released) -> str:
    """MODEL_CARD.html: no script, no style, nothing loaded."""
    body = "".join(
        f"<h2>{escape(heading)}</h2>" + "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
        for heading, paragraphs in sections(model)
    )
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    head = f'<meta charset="utf-8">{policy}<title>Model card</title>'
    page = f"<head>{head}</head><body><h1>Model card</h1>{body}</body>"
    return f'<!doctype html><html lang="en">{page}</html>\n'
