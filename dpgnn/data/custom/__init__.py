"""A user's own graph: options, tables and arrays read with checks, in memory or in pieces."""
