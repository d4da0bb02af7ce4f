"""Figures of a study: their data, and their drawing."""
