"""Facts of methods that read no edge in training: a node's record enters only its own root."""

from __future__ import annotations

from dpgnn.methods.entry import pairs

ASSUMED_PUBLIC = ("number of training nodes", "membership of the split", "all options")

# every node unit: no other node's record is read
SUPPORTS = (
    *pairs("node", "add-remove", "replace-one", "null-one"),
    *pairs("node-record", "add-remove", "replace-one"),
    *pairs("node-features", "replace-one"),
)
# changed roots when one node changes: (roots of G, roots of G')
CHANGED_ROOTS = {"add-remove": (1, 0), "replace-one": (1, 1), "null-one": (1, 1)}
