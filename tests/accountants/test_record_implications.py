"""Steps of the implication table that speak of records, against an enumeration of own lists."""

from itertools import combinations, product

from dpgnn.accountants.claims import UNIT_RELATIONS
from dpgnn.accountants.implications import Notion, notion_implies

IDS = (0, 1, 2)
LISTS = {v: [frozenset(c) for n in range(3) for c in combinations([u for u in IDS if u != v], n)]
         for v in IDS}  # fmt: skip
# None: absent; otherwise (feature bit, own list)
RECORDS = {v: [None, *product((0, 1), LISTS[v])] for v in IDS}
EMPTY = (0, frozenset())


def merged(world):
    """The graph that own half-edges make: an edge where either end lists the other and both are there."""
    edges = {
        frozenset((v, u))
        for v, record in enumerate(world) if record is not None
        for u in record[1] if world[u] is not None
    }  # fmt: skip
    return tuple(None if r is None else r[0] for r in world), frozenset(edges)


def record_pairs(relation):
    """All pairs of worlds that differ in one record."""
    for world in product(*RECORDS.values()):
        for v in IDS:
            for other in RECORDS[v]:
                mine = world[v]
                if other == mine:
                    continue
                absent = mine is None or other is None
                if (relation == "add-remove") != absent:
                    continue
                if relation == "null-one" and EMPTY not in (mine, other):
                    continue
                yield v, world, (*world[:v], other, *world[v + 1 :])


def is_node_pair(relation, v, a, b):
    """Whether two graphs are neighbours in node v (or equal, which protects too)."""
    (bits, edges), (other_bits, other_edges) = a, b
    if a == b:
        return True
    if any(v not in edge for edge in edges ^ other_edges):
        return False
    if relation == "add-remove":
        return (bits[v] is None) != (other_bits[v] is None)
    if None in (bits[v], other_bits[v]):
        return False
    if relation == "null-one":
        return any(bit[v] == 0 and not any(v in edge for edge in side)
                   for bit, side in ((bits, edges), (other_bits, other_edges)))  # fmt: skip
    return True


def test_a_step_from_a_node_unit_to_records_holds_once_half_edges_are_merged():
    checked = 0
    for strong, weak in product(("add-remove", "replace-one", "null-one"), repeat=2):
        stronger = Notion(privacy_unit="node", relation=strong)
        if notion_implies(stronger, Notion(privacy_unit="node-record", relation=weak)):
            checked += 1
            for v, a, b in record_pairs(weak):
                assert is_node_pair(strong, v, merged(a), merged(b)), (strong, weak, v, a, b)
    assert checked == 3  # both relations of the table, and emptying as a replacement


def test_steps_among_record_relations_are_inclusions_of_their_pairs():
    pairs = {
        r: {(a, b) for _, a, b in record_pairs(r)}
        for r in ("add-remove", "replace-one", "null-one")
    }
    for strong, weak in product(pairs, repeat=2):
        implied = notion_implies(
            Notion(privacy_unit="node-record", relation=strong),
            Notion(privacy_unit="node-record", relation=weak),
        )
        assert implied == (pairs[weak] <= pairs[strong]), (strong, weak)


def test_records_imply_features_and_nothing_about_other_edges():
    for unit, relation in [(u, r) for u in UNIT_RELATIONS for r in UNIT_RELATIONS[u]]:
        bound = 2 if unit == "node-bounded" else None
        target = Notion(privacy_unit=unit, relation=relation, degree_bound=bound)
        for strong in ("add-remove", "replace-one", "null-one"):
            implied = notion_implies(Notion(privacy_unit="node-record", relation=strong), target)
            wanted = unit == "node-record" and (
                relation == strong or (strong, relation) == ("replace-one", "null-one")
            )
            wanted |= (strong, unit) == ("replace-one", "node-features")
            # an edge, or a node's edges that others list, stands in records of others
            assert implied == wanted, (strong, unit, relation)
