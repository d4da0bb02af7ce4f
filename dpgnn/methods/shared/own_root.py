"""What methods that read no edge in training have in common: a node's record enters its own root alone."""

from __future__ import annotations

# changed roots when one node changes: (roots of G, roots of G')
CHANGED_ROOTS = {"add-remove": (1, 0), "replace-one": (1, 1), "null-one": (1, 1)}
