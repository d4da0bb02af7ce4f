"""From what was done (events) to what is guaranteed (claims)."""
