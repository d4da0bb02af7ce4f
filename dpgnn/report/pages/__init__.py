"""Pages: the report of a study, and those of docs/."""
