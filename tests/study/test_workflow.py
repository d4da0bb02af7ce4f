from __future__ import annotations

from dpgnn.study.workflow import REPORT_FOLDERS


def test_the_reports_code_hash_covers_templates_and_the_papers_numbers() -> None:
    kinds = [{path.suffix for path in folder.rglob("*")} for folder in REPORT_FOLDERS]
    assert ".html" in kinds[0]
    assert ".csv" in kinds[1]
