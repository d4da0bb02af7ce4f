"""A base method whose options are chosen privately among several; the choice is in the claim."""
