"""What methods that read no edge in training have in common: a node's record enters its own root alone."""

from __future__ import annotations

from dpgnn.methods.entry import Support

ASSUMED_PUBLIC = ("number of training nodes", "membership of the split", "all options")

# every node unit: no other node's record is read
SUPPORTS = (
    Support(privacy_unit="node", relation="add-remove"),
    Support(privacy_unit="node", relation="replace-one"),
    Support(privacy_unit="node", relation="null-one"),
    Support(privacy_unit="node-record", relation="add-remove"),
    Support(privacy_unit="node-record", relation="replace-one"),
    Support(privacy_unit="node-features", relation="replace-one"),
)
# changed roots when one node changes: (roots of G, roots of G')
CHANGED_ROOTS = {"add-remove": (1, 0), "replace-one": (1, 1), "null-one": (1, 1)}
