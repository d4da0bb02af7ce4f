"""Rankings, comparisons and their words, from the records of a study."""
