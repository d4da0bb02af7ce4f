"""Paired differences: against the baseline, and between the sound and the published form of a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.ranking import compare, pair_of, together
from dpgnn.report.statistics.statistics import PairedTest, Verdict, judged

if TYPE_CHECKING:
    from dpgnn.report.statistics.comparisons import Compared


@dataclass(frozen=True, kw_only=True)
class Difference:
    """entry - reference at shared splits.

    Attributes:
        entry, reference: the two cells.
        question: what the difference answers, see `_question`; "refused" if the claims may not be compared.
        note: why it is refused, the shared guarantee, or the options that differ.
        test: None when refused or when no split is shared.
        corrected_p: Holm's p value within the family; None without a test or with one repeat.
        verdict: see `statistics.verdict`; None without a test.
        family: number of comparisons in the correction: those of its question for a comparison that the study
            asks for, else the others of this data set and setting.
    """

    entry: Cell
    reference: Cell
    question: str
    note: str = ""
    test: PairedTest | None = None
    corrected_p: float | None = None
    verdict: Verdict | None = None
    family: int = 0


def differences(
    cells: Sequence[Cell], info: StudyInfo, asked: Sequence[Compared] = ()
) -> list[Difference]:
    """All paired differences of a study, corrected within each data set and setting.

    A pair in `asked`, the comparisons that the study asks for, keeps its verdict from there and is not part
    of the others' correction. Points of `info.tuned` entries are there to choose from: no statement is made
    of them, so they are not compared, and the correction does not count them.

    Each entry is compared with the baseline at its own epsilon (or with the baseline's only level if one of
    the two is not private). If the study asks for no comparison, each sound entry is also compared with the
    published entry of its method that differs in the fewest options.
    """
    cells = [cell for cell in cells if not info.is_point(cell.entry)]
    pairs, forms = _baseline_pairs(cells, info), _soundness_pairs(cells)
    two_forms = {(id(sound), id(published)) for sound, published in forms}
    if not info.comparisons:
        pairs += forms
    found, seen = [], set()
    for entry, reference in pairs:
        identity = (id(entry), id(reference))
        if identity not in seen:
            seen.add(identity)
            found.append(_difference(entry, reference, two_forms=identity in two_forms))
    return _corrected(found, {pair_of(item.entry, item.reference): item for item in asked})


def count_comparisons(found: Sequence[Difference]) -> int:
    """Number of tested comparisons."""
    return sum(item.test is not None and item.test.p is not None for item in found)


def _baseline_pairs(cells: Sequence[Cell], info: StudyInfo) -> list[tuple[Cell, Cell]]:
    if not info.baseline:
        return []
    references = [cell for cell in cells if cell.entry == info.baseline]
    return [
        (entry, reference)
        for entry in cells
        if entry.entry != info.baseline
        for reference in references
        if reference.place == entry.place
        and (not (entry.is_private and reference.is_private) or entry.epsilon == reference.epsilon)
    ]


def _soundness_pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    published = grouped(
        (cell for cell in cells if cell.mode == "published"),
        lambda cell: (cell.method, cell.place, cell.epsilon),
    )
    pairs = []
    for sound in (cell for cell in cells if cell.mode == "sound"):
        candidates = published.get((sound.method, sound.place, sound.epsilon))
        if candidates:
            nearest = min(candidates, key=lambda other: len(differing_options(sound, other)))
            pairs.append((sound, nearest))
    return pairs


def differing_options(a: Cell, b: Cell) -> list[str]:
    """Dotted names of the options in which two entries differ, sorted."""
    first, second = (dotted(cell.runs[0].record.entry.get("options", {})) for cell in (a, b))
    return sorted(
        name for name in {*first, *second} if first.get(name, ...) != second.get(name, ...)
    )


def dotted(options: Any, path: str = "") -> dict[str, Any]:
    """Nested options by their dotted names."""
    if not isinstance(options, Mapping):
        return {path: options}
    found: dict[str, Any] = {}
    for name, value in options.items():
        found |= dotted(value, f"{path}.{name}" if path else str(name))
    return found


def reads_edges(cell: Cell) -> bool:
    """Whether an entry reads edges, in training or answers."""
    return methods.get(cell.method).uses_edges and not is_mlp(cell)


def is_mlp(cell: Cell) -> bool:
    """Whether an entry is the MLP, with or without privacy; with some options a graph method is one."""
    options = cell.runs[0].record.entry.get("options", {})
    without_edges = {"dp_gnn": ("num_hops", 0), "drw": ("sampler", "nodes")}
    if cell.method in without_edges:
        name, value = without_edges[cell.method]
        return bool(options.get(name) == value)
    return cell.method in ("mlp", "dp_mlp")


def _difference(entry: Cell, reference: Cell, *, two_forms: bool) -> Difference:
    question, note = _question(entry, reference, two_forms=two_forms)
    test = None if question == "refused" else compare(entry, reference)
    if question != "refused" and test is None:
        note = "no split is shared"
    return Difference(entry=entry, reference=reference, question=question, note=note, test=test)


def _question(entry: Cell, reference: Cell, *, two_forms: bool) -> tuple[str, str]:
    """What entry - reference answers, and a note.

    A price compares a network with itself: the price of privacy with its non-private form, the price of
    soundness with its nearest published form. Other differences are named after their two sides.
    """
    if not (entry.is_private or reference.is_private):
        return "no privacy on either side", ""
    if not entry.is_private:
        return "without privacy against the private baseline", ""
    if not reference.is_private:
        same = _network(entry) == _network(reference)
        return ("price of privacy" if same else "against the baseline without privacy"), ""
    if two_forms:
        listed = ", ".join(differing_options(entry, reference)) or "nothing"
        return "price of soundness", f"options that differ: {listed}"
    allowed, reason = together(entry, reference)
    return ("same guarantee" if allowed else "refused"), reason


def _network(cell: Cell) -> tuple[Any, ...]:
    """The trained network: an entry with one hop is not the private form of one without hops."""
    if is_mlp(cell):
        return ("mlp",)
    options = cell.runs[0].record.entry.get("options", {})
    return (cell.method, *(options.get(name) for name in ("conv", "num_hops", "num_layers")))


def _corrected(
    found: Sequence[Difference], asked: Mapping[frozenset[int], Compared]
) -> list[Difference]:
    families: dict[tuple[str, str], list[int]] = {}
    done = list(found)
    for position, item in enumerate(found):
        known = asked.get(pair_of(item.entry, item.reference))
        if known is None:
            families.setdefault(item.entry.place, []).append(position)
        elif item.test is not None:
            done[position] = replace(
                item, corrected_p=known.corrected_p, verdict=known.verdict, family=known.family
            )
    for positions in families.values():
        tests = [found[position].test for position in positions]
        corrected, words = judged(tests)
        size = sum(p is not None for p in corrected)
        for position, p, word in zip(positions, corrected, words):
            if word is not None:
                done[position] = replace(found[position], corrected_p=p, verdict=word, family=size)
    return done
