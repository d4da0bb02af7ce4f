"""Tables of a study and of its attacks, audits and claims."""
