"""Servers that misbehave, each on 127.0.0.1."""

from __future__ import annotations

from faults.row import Row

ROWS: list[Row] = []
