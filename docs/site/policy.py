"""A content security policy for each page: it runs the site's scripts and its own, and asks nobody.

Scripts that stand in a page are named by their checksums. Styles may stand in pages: the icons' script
writes one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
PLACE = '<meta charset="utf-8" />'
MARK = '<meta http-equiv="Content-Security-Policy"'
FOLDER = "'self' file:"  # file: a site that is opened from its folder has no origin of its own


def policy_of(page: str) -> str:
    """The policy of one page of HTML."""
    digests = (hashlib.sha256(text.encode()).digest() for text in SCRIPT.findall(page))
    inline = sorted({f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests})
    return "; ".join(
        [
            "default-src 'none'",
            " ".join([f"script-src {FOLDER}", *inline]),
            f"style-src {FOLDER} 'unsafe-inline'",
            f"img-src {FOLDER} data:",
            f"font-src {FOLDER}",
            f"form-action {FOLDER}",
            "base-uri 'none'",
        ]
    )


def write_policies(site: Path) -> None:
    """Put its policy into every page of the site that has none yet."""
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if MARK not in page and PLACE in page:
            line = f'{MARK} content="{policy_of(page)}" />'
            path.write_text(page.replace(PLACE, f"{PLACE}\n    {line}", 1), encoding="utf-8")
