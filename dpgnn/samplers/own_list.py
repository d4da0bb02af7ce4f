"""Own-list keyed top-K: the sampler under which few roots change when one record changes.

Data set: every present node u has a record (features, label, L_u), L_u the list of ids it sends its
features to. With a public key, R_u = the K ids of L_u, among the training ids, of smallest priority
pi(u, v). Root v reads E_v = {u present : v in R_u}; its subgraph follows E to depth r.

Proof. R_u is a function of u's record and the key. "u is read by w in S_v" is the event w in R_u. If S_v
differs between data sets that differ in x's record only, x occurs in S_v in one of them: there is a path
x -> w1 -> ... -> v of at most r arcs of R. Every R has at most K ids and those of the other nodes are
equal, so at most N(K, r) = 1 + K + ... + K^r roots contain x, x itself included.
 - Removed: these roots lose x's branch and root x is gone: (N, N - 1).
 - Replaced: the union of the roots of the old and of the new record; x is in both: (2N - 1, 2N - 1).
 - Emptied (features, label and list), or features and label alone replaced: (N, N).
 - With the others' mentions of x gone too (x has at most D incident edges): a list that mentioned x
   admits one other id v', and root v' and those within r - 1 arcs of it change, at most N(K, r - 1):
   D N(K, r - 1) more; when x is replaced, old and new mentions count, 2 D N(K, r - 1) more.
 - One undirected edge: two lists change, each loses one id and admits one: 4 N(K, r - 1).
No coins are coupled, so every bound holds for every key. An absent id keeps its slot: the training ids
are a public input, the same in both data sets. Without x's id among them a list that names x admits another
one; that pair of inputs is not compared.

Source: docs/accounting.md, the sampler that makes the claim true.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dpgnn.core.checks import at_least
from dpgnn.samplers.lists import Arcs, Lists, lists_of, shorten, top_k_slots
from dpgnn.samplers.promise import Promise, occurrence_bound, proved
from dpgnn.samplers.tree_sampler import Given, TreeSampler

PROOF = "samplers/own_list.py"


@dataclass(frozen=True, kw_only=True)
class OwnList(TreeSampler):
    """Every node sends its features to at most K nodes of its own list, chosen by a keyed hash.

    Guarantee: the bounds of `promise`, for every key. Public: ids, training ids, K, r, the key (and D for
    `node-bounded`). An arc u -> v stands for each v in u's list.

    Attributes:
        max_degree: K, slots in a node's own list.
        num_hops: r, depth of the subgraphs; 0 leaves the roots alone.
        degree_bound: D, a declared bound on the incident edges of a node in the input graph; with it the
            sampler also promises the unit `node-bounded`. Never measured.
        max_list_size: truncate the list that a root reads to this many ids of smallest priority, to save
            memory; affects only subgraphs that the bounds already count.
    """

    max_degree: int
    num_hops: int = 1
    degree_bound: int | None = None
    max_list_size: int | None = None

    def __post_init__(self) -> None:
        at_least("max_degree", self.max_degree, 0)
        at_least("num_hops", self.num_hops, 0)
        if self.degree_bound is not None:
            at_least("degree_bound", self.degree_bound, 0)
        if self.max_list_size is not None:
            at_least("max_list_size", self.max_list_size, 0)

    @property
    def promise(self) -> Promise:
        """The bounds proved above."""
        num = occurrence_bound(self.max_degree, self.num_hops)
        inner = occurrence_bound(self.max_degree, self.num_hops - 1)
        changes = {
            ("node-features", "replace-one"): (num, num),
            ("node-record", "add-remove"): (num, num - 1),
            ("node-record", "null-one"): (num, num),
            ("node-record", "replace-one"): (2 * num - 1, 2 * num - 1),
            ("edge", "add-remove"): (4 * inner, 4 * inner),
        }
        if self.degree_bound is not None:
            extra = self.degree_bound * inner
            both = 2 * (num + extra) - 1
            changes |= {
                ("node-bounded", "add-remove"): (num + extra, num + extra - 1),
                ("node-bounded", "null-one"): (num + extra, num + extra),
                ("node-bounded", "replace-one"): (both, both),
            }
        return Promise(
            name="own_list",
            params=asdict(self),
            owner="source",
            max_occurrences=num,
            changes=proved(changes, PROOF),
        )

    def _lists(self, arcs: Arcs, given: Given) -> Lists:
        """The own lists, cut to `max_degree` ids.

        Guarantee: a node's list is a function of its own record and the key: at most `max_degree` ids each.
        The result is as sensitive as the edges.

        Source: docs/accounting.md, theorem 4.
        """
        slots, counts = top_k_slots(
            arcs, given.num_nodes, self.max_degree, by="source", group_ok=given.present,
            item_ok=given.train, key=given.key, num_workers=given.num_workers,
        )  # fmt: skip
        lists = lists_of(slots, counts)
        if self.max_list_size is not None:
            lists = shorten(lists, self.max_list_size, key=given.key, by_priority=True)
        return lists
