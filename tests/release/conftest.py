"""A signed bundle as fixtures."""

from bundles import keys, saved

__all__ = ["keys", "saved"]
