"""Write config.schema.yaml from the dataclasses; a test fails when the file drifts."""

from __future__ import annotations

from pathlib import Path

import yaml

from dpgnn.study.stated import study_schema

FILE = Path(__file__).resolve().parent / "config.schema.yaml"
NOTE = (
    "# generated from dpgnn/study and dpgnn/methods by workflow/schemas/generate.py; do not edit\n"
)


def text() -> str:
    """The schema file's content."""
    return NOTE + yaml.safe_dump(study_schema(), sort_keys=False, width=100)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
