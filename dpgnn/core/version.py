"""The version of the package; it stands in every record."""

VERSION = "0.1.0"
