"""Sentences on who may see which part of a model."""

from __future__ import annotations

from collections.abc import Mapping

from dpgnn.accountants.claims import Answers

SHOWN_TO: Mapping[Answers, str] = {
    "everyone": "Everyone may see its answers.",
    "own-record": "An answer may be shown to the asked node alone: it reads that node's own record.",
    "none": "No claim covers its answers: they read records of other nodes afresh. Show the weights alone.",
}
PUBLIC_IDS = "the ids of the graph's nodes, and so who is in the graph"
SEEDED = (
    "This is no release: noise and batches follow from a seed, and who knows the seed can take the noise "
    "off. The claim below holds for a fit without `seed`."
)
