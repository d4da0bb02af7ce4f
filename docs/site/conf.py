"""Sphinx's settings; `make docs` stages the sources and builds. Nothing is loaded from the net."""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parent
sys.path[:0] = [str(SITE.parents[1])]

from docs.site import tables  # noqa: E402
from dpgnn.core.version import VERSION  # noqa: E402

project = "dpgnn"
author = "the dpgnn authors"
copyright = "the dpgnn authors, MIT licence"
release = version = VERSION
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 4
# tables of records are wide; headings of generated pages begin where their table belongs
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_ipywidgets_js = {}
default_role = "code"
napoleon_google_docstring = True
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Source", "notes_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
viewcode_line_numbers = False
exclude_patterns = ["files"]
html_theme = "sphinx_book_theme"
html_title = "dpgnn"
html_static_path = [str(SITE / "static")]
html_math_renderer = "katex"
html_css_files = ["katex/katex.min.css", "site.css"]
html_js_files = [
    (name, {"defer": "defer"}) for name in ("katex/katex.min.js", "site.js", "explorer.js")
]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # a site that is opened from its folder may not read its pages
html_theme_options = {
    "home_page_in_toc": True,
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _inline(writer: Any, node: Any) -> None:
    _equation(writer, node, "span", display=False)


def _block(writer: Any, node: Any) -> None:
    _equation(writer, node, "div", display=True)


def _equation(writer: Any, node: Any, element: str, *, display: bool) -> None:
    """An element that site.js sets with KaTeX; without JavaScript its LaTeX stands there."""
    import docutils.nodes

    kind = "math display" if display else "math"
    text = html.escape(node.astext())
    writer.body.append(f'<{element} class="{kind}" role="math">{text}</{element}>')
    raise docutils.nodes.SkipNode


def _tables(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if isinstance(context.get("body"), str):
        context["body"] = tables.with_labels(context["body"])


def setup(app: Any) -> None:
    """Register how equations are written, and what becomes of tables."""
    app.connect("html-page-context", _tables)
    app.add_html_math_renderer(
        "katex", inline_renderers=(_inline, None), block_renderers=(_block, None)
    )
