"""CARIBOU: private hops over contractive layers (node or edge level)."""
