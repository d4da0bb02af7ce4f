"""`python -m docs.site.build`: stage the sources and build docs/_build/html, warnings as errors."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from docs.site import explorer, policy, reference
from docs.site.stage import REPOSITORY, copy_linked, remove_stale, stage, write


def stage_all(out: Path) -> None:
    """Write every source of the site below `out`."""
    kept = stage(out)
    kept.append(
        write(out / "choose.md", explorer.with_filter((out / "choose.md").read_text("utf-8")))
    )
    kept += explorer.write_scripts(out / "_static")
    kept += copy_linked(out)
    kept += [write(out / place, text) for place, text in reference.pages().items()]
    remove_stale(out, kept)


def build(out: Path, *, notebooks: bool = True) -> int:
    """Build the site below `out`.

    Args:
        out: its html/ is the site; beside it stand sources, doctrees and the cache of executed notebooks.
        notebooks: execute those that changed.

    Returns:
        0, or 1 where Sphinx warned.
    """
    from sphinx.cmd.build import build_main

    stage_all(out / "source")
    given = [
        "-W", "--keep-going", "-q", "-c", str(REPOSITORY / "docs" / "site"), "-d", str(out / "doctrees"),
        "-D", f"nb_execution_cache_path={out / 'notebooks'}",
    ]  # fmt: skip
    static = f"{REPOSITORY / 'docs' / 'site' / 'static'},{out / 'source' / '_static'}"
    given += ["-D", f"html_static_path={static}"]
    if not notebooks:
        given += ["-D", "nb_execution_mode=off"]
    code = int(build_main([*given, "-b", "html", str(out / "source"), str(out / "html")]))
    policy.write_policies(out / "html")
    return code


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "_build")
    parser.add_argument("--no-notebooks", action="store_true", help="do not execute notebooks")
    args = parser.parse_args()
    start = time.monotonic()
    code = build(args.out.resolve(), notebooks=not args.no_notebooks)
    if code == 0:
        took = time.monotonic() - start
        print(f"docs: {args.out / 'html' / 'index.html'} in {took:.0f} s", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
