"""The synthetic study of `made_runs` as fixtures."""

from made_runs import documented, few_runs, info, runs, with_score, written

__all__ = ["documented", "few_runs", "info", "runs", "with_score", "written"]
