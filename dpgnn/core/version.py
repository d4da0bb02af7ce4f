"""The version of the package, which every record states."""

VERSION = "0.1.0"
