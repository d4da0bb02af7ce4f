"""The public numbers of nodes: declared populations, and what claims say about them.

Under add-remove, neighbouring graphs differ in the number of nodes, so a plan that counts nodes differs too.
Proof and remedy: docs/accounting.md, theorem 14.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpgnn.accountants.claims import Claim
from dpgnn.core.checks import at_least, require

CHANGES = "population-changes"
COUNTED = ("number of nodes", "number of training nodes")
DECLARED = "declared numbers of nodes and of training nodes"
SHAPES = ("number of features", "number of classes")
# float64 represents every integer up to this value
MOST_NODES = 2**53


@dataclass(frozen=True, kw_only=True)
class PublicPopulation:
    """Numbers of nodes that the owner of the graph declares; nothing compares them with the graph.

    Guarantee: a plan made from them alone is the same for every graph, in particular for two neighbours.

    Attributes:
        nodes: N0, of the graph, which the owner may round; delta `auto` is 1/(10 N0).
        training: of the training nodes; gives sampling rates, steps and divisors.
    """

    nodes: int
    training: int

    def __post_init__(self) -> None:
        at_least("nodes", self.nodes, 1)
        at_least("training", self.training, 1)
        require(self.nodes <= MOST_NODES, "nodes", f"be <= {MOST_NODES}", self.nodes)
        rule = f"be <= nodes = {self.nodes}"
        require(self.training <= self.nodes, "training", rule, self.training)


def changes_nodes(privacy_unit: str | None, relation: str | None) -> bool:
    """Whether neighbouring graphs differ in the number of nodes.

    Args:
        privacy_unit, relation: of a claim; None without privacy.
    """
    return relation == "add-remove" and privacy_unit != "edge"


def reads_population(mode: str, privacy_unit: str | None, relation: str | None) -> bool:
    """Whether a plan is made from a declared population; published plans are not.

    Args:
        mode: of the entry: sound, published or nonprivate.
        privacy_unit, relation: of its claim; None without privacy.

    Source: docs/accounting.md, theorem 14.
    """
    return mode == "sound" and changes_nodes(privacy_unit, relation)


def with_sizes(
    claims: tuple[Claim, ...], *, declared: bool, shows_nodes: bool = False
) -> tuple[Claim, ...]:
    """The claims with every size they take as public, and `population-changes` where nodes were counted.

    Guarantee: each claim with a finite epsilon names the sizes that its proof takes as public.

    Args:
        claims: those without a finite epsilon take nothing as public and are returned unchanged.
        declared: whether the plan was made from a declared population, if the relation changes the number of
            nodes.
        shows_nodes: whether the release has a row for every node, so that its shape reveals their number.

    Source: docs/accounting.md, theorem 14.
    """
    return tuple(
        _with_sizes(claim, declared=declared, shows_nodes=shows_nodes)
        if claim.epsilon < float("inf")
        else claim
        for claim in claims
    )


def _with_sizes(claim: Claim, *, declared: bool, shows_nodes: bool) -> Claim:
    own, changes = claim.assumed_public, changes_nodes(claim.privacy_unit, claim.relation)
    declared = declared and changes
    if declared:
        own = tuple(fact for fact in own if fact not in COUNTED)
    sizes = (DECLARED if declared else COUNTED[0], *SHAPES)
    caveats = claim.caveats
    says_so = changes and claim.status == "proved" and (shows_nodes or not declared)
    if says_so and CHANGES not in caveats:
        caveats = (*caveats, CHANGES)
    return replace(claim, assumed_public=tuple(dict.fromkeys((*own, *sizes))), caveats=caveats)


def check_delta(delta: float, num_nodes: int) -> None:
    """Refuse a delta at which publishing a whole unit would count as private.

    A usual delta is one over ten times the number of units. If delta is at least one over that number, a
    mechanism that publishes one unit, drawn at random, is (0, delta)-private.

    Args:
        delta: in (0, 1).
        num_nodes: public; also used for edges, whose number is private.

    Raises:
        ValueError: delta * num_nodes >= 1.
    """
    require(
        delta * num_nodes < 1, "delta", f"be < {1 / num_nodes:.4g}, one over the {num_nodes} nodes",
        delta, "use `auto` or 1/(10 nodes); at this delta, publishing a whole record counts as private",
    )  # fmt: skip
