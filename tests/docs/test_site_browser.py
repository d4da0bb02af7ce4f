"""The site in a real browser, from its folder without a network: desk, phone, light, dark, keyboard."""

from __future__ import annotations

import csv
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="chromium and chromedriver are not installed",
    ),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
DARK = (
    "index.html", "choose.html", "explorer.html", "results.html", "accounting.html",
    "search.html", "genindex.html",
)  # fmt: skip
CONTRAST = """
const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const opaque = (p) => p.length === 3 || p[3] > 0.99;
const grounds = new Map();  // a page has thousands of cells, whose parents are few
function ground(element) {
  if (!element) return [255, 255, 255];
  if (!grounds.has(element)) {
    const p = parts(getComputedStyle(element).backgroundColor);
    grounds.set(element, p.length && opaque(p) ? p : ground(element.parentElement));
  }
  return grounds.get(element);
}
const wrong = new Set();
const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  const style = getComputedStyle(element);
  if (!node.data.trim() || !element.getClientRects().length || style.visibility === "hidden") continue;
  if (element.closest("svg, script, style, noscript, .visually-hidden, .headerlink, .katex-mathml")) continue;
  const [a, b] = [light(parts(style.color)), light(ground(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
  if (ratio < (size >= 24 || (bold && size >= 18.66) ? 3 : 4.5)) {
    const where = `${element.tagName}.${element.className}`;
    wrong.add(`${ratio.toFixed(2)} ${style.color} ${where}: ${node.data.trim().slice(0, 40)}`);
  }
}
return [...wrong].slice(0, 10);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": folder})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        driver.downloads = Path(folder)
        try:
            yield driver
        finally:
            driver.quit()


@pytest.fixture
def visit(browser: Any, site: Path) -> Callable[..., Any]:
    """Opens a page at a width, in light or dark."""

    def open_page(name: str, width: int = 1300, scheme: str = "light") -> Any:
        set_width(browser, width)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        browser.get_log("browser")
        browser.get((site / name).as_uri())
        browser.execute_script("localStorage.clear()")
        if name == "explorer.html":
            wait_for(browser, "return document.querySelector('#explorer-chart svg')")
        return browser

    return open_page


def set_width(browser: Any, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def wait_for(browser: Any, script: str, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := browser.execute_script(script)):
        assert time.monotonic() < end, script
        time.sleep(0.05)
    return found


def errors(browser: Any) -> list[str]:
    return [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def html_pages(site: Path) -> list[str]:
    """Every page of the site."""
    left_out = {"_static", "_sources", "files"}
    found = [path.relative_to(site) for path in sorted(site.rglob("*.html"))]
    return [path.as_posix() for path in found if path.parts[0] not in left_out]


CUT = """
const box = (table) => table.closest(".pst-scrollable-table-container") ?? table.parentElement;
return [...document.querySelectorAll("table")].filter((t) => box(t).scrollWidth > box(t).clientWidth + 1)
  .map((t) => t.textContent.trim().slice(0, 60));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_and_their_tables_fit_are_readable_and_have_no_errors(
    visit: Callable[..., Any], scheme: str, site: Path
) -> None:
    """Of every page, as wide as a desk's and then as a phone's; in dark of one page of each kind."""
    wrong = []
    for name in html_pages(site) if scheme == "light" else DARK:
        page = visit(name, 1300, scheme)
        for width in (1300, 390):
            set_width(page, width)
            if name == "explorer.html":  # it draws its chart anew
                wait_for(page, f"return document.documentElement.scrollWidth <= {width}", 10)
            theme = page.execute_script("return document.documentElement.dataset.theme")
            wide = page.execute_script("return document.documentElement.scrollWidth")
            found = [*page.execute_script(CONTRAST), *errors(page)]
            found += [] if theme == scheme else [f"theme {theme}"]
            found += [] if wide <= width else [f"{wide} pixels wide"]
            found += page.execute_script(CUT) if width < 600 else []
            wrong += [(name, width, line) for line in found]
    assert wrong == []


def test_the_page_that_answers_takes_two_screens_of_a_desk_and_cuts_no_table(
    visit: Callable[..., Any],
) -> None:
    page = visit("choose.html", 1300)
    end = "return document.querySelector('article').getBoundingClientRect().bottom + scrollY"
    assert page.execute_script(end) <= 2 * 900
    assert page.execute_script(CUT) == []


def test_a_row_of_a_wide_table_is_a_card_that_names_its_columns(visit: Callable[..., Any]) -> None:
    cell = "document.querySelectorAll('table.cards')[1].tBodies[0].rows[0].cells[2]"
    label = f"return getComputedStyle({cell}, '::before').content"
    page = visit("choose.html", 390)
    assert page.execute_script(label) == '"edges"'
    assert page.execute_script(f"return getComputedStyle({cell}).display") == "flex"
    assert page.execute_script(f"return {cell}.getAttribute('role')") == "cell"
    page = visit("choose.html", 1300)
    assert page.execute_script(label) == "none"
    assert page.execute_script(f"return getComputedStyle({cell}).display") == "table-cell"


def press(page: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(page).send_keys(key).perform()


ACTIVE = """
const e = document.activeElement, style = getComputedStyle(e);
return [e.getAttribute("aria-label") ?? e.textContent.trim().replace(/\\s+/g, " "),
  style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
"""


def tab_to(page: Any, name: str, most: int = 200) -> list[str]:
    """Press Tab until something of this name has the focus; the names passed, all of them seen to have it."""
    from selenium.webdriver.common.keys import Keys

    passed = []
    for _ in range(most):
        press(page, Keys.TAB)
        words, is_seen = page.execute_script(ACTIVE)
        passed.append(words)
        assert is_seen, passed[-3:]
        if words.startswith(name):
            return passed
    raise AssertionError(f"{name} is not reached: {passed}")


def test_the_skip_link_leads_past_the_menu(visit: Callable[..., Any]) -> None:
    from selenium.webdriver.common.keys import Keys

    page = visit("choose.html")
    assert tab_to(page, "Skip to main content") == ["Skip to main content"]
    wait_for(page, "return document.activeElement.getBoundingClientRect().top >= 0")
    press(page, Keys.ENTER)
    assert page.current_url.endswith("#main-content")
    press(page, Keys.TAB)
    inside = "return document.activeElement.closest('main') !== null"
    assert page.execute_script(inside)


@pytest.mark.parametrize("width", [1300, 390])
def test_menu_theme_and_search_are_used_by_keyboard_alone(
    visit: Callable[..., Any], width: int
) -> None:
    from selenium.webdriver.common.keys import Keys

    page = visit("choose.html", width)
    if width < 600:
        tab_to(page, "Toggle primary sidebar")
        press(page, Keys.ENTER)
        wait_for(page, "return document.querySelector('dialog[open]') !== null")
    tab_to(page, "Explorer")
    press(page, Keys.ENTER)
    wait_for(page, "return location.pathname.endsWith('/explorer.html')")
    page = visit("choose.html", width)
    tab_to(page, "Color mode")
    press(page, Keys.ENTER)
    wait_for(page, "return document.querySelector('.dropdown-menu.show') !== null")
    tab_to(page, "Dark")
    press(page, Keys.ENTER)
    wait_for(page, "return document.documentElement.dataset.theme === 'dark'")
    page = visit("choose.html", width)
    tab_to(page, "Search")
    press(page, Keys.ENTER)
    wait_for(page, "return document.querySelector('#pst-search-dialog').open")
    press(page, *"sensitivity", Keys.ENTER)
    wait_for(page, "return document.querySelectorAll('#search-results li').length > 2")
    assert errors(page) == []


def test_the_filter_of_the_page_that_answers_is_used_by_keyboard_alone(
    visit: Callable[..., Any],
) -> None:
    from selenium.webdriver.common.keys import Keys

    page = visit("choose.html")
    page.execute_script("document.querySelector('#main-content').focus()")
    tab_to(page, "anyedge")
    press(page, Keys.DOWN)
    shown = (
        "return [...document.querySelectorAll('section > h2')].filter((h) => h.getClientRects().length)"
        ".map((h) => h.textContent.split(':')[0]).filter((t) => t.startsWith('edge') || t.startsWith('node'))"
    )
    assert page.execute_script(shown) == ["edge"]
    press(page, Keys.TAB, Keys.DOWN, Keys.DOWN)
    rows = (
        "return [...document.querySelectorAll('section:not([hidden]) tbody tr')]"
        ".filter((r) => r.getClientRects().length && /^[0-9]+$/.test(r.cells[0].textContent))"
        ".map((r) => r.cells[0].textContent)"
    )
    assert page.execute_script(rows) == ["2"]


def test_a_table_that_scrolls_is_reached_and_scrolled_by_keyboard(
    visit: Callable[..., Any],
) -> None:
    from selenium.webdriver.common.keys import Keys

    page = visit("choose.html", 900)
    boxes = "document.querySelectorAll('.pst-scrollable-table-container.wide')"
    assert page.execute_script(f"return {boxes}.length") > 0
    tab_to(page, "Table, scrolls sideways")
    press(page, *[Keys.RIGHT] * 3)
    wait_for(page, "return document.activeElement.scrollLeft > 0")


def test_pages_run_no_code_but_the_sites(visit: Callable[..., Any]) -> None:
    page = visit("index.html")
    page.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true';"
        "document.head.append(script); const picture = document.createElement('img');"
        "picture.src = 'https://example.org/a.png'; document.body.append(picture);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = true\">');"
    )
    wait_for(page, "return document.images[document.images.length - 1].complete")
    assert page.execute_script("return window.ran ?? null") is None
    refused = [line for line in errors(page) if "Content Security Policy" in line]
    assert len(refused) >= 3


def test_equations_are_set(visit: Callable[..., Any]) -> None:
    page = visit("accounting.html")
    made, places, wrong = page.execute_script(
        "return [document.querySelectorAll('.math .katex').length, document.querySelectorAll('.math').length,"
        " document.querySelectorAll('.katex-error').length]"
    )
    assert made == places > 0
    assert wrong == 0


def test_the_explorer_filters_sorts_and_hands_out_what_it_shows(visit: Callable[..., Any]) -> None:
    page = visit("explorer.html")
    assert [line for line in page.get_log("browser") if "WARN" in line["message"]] == []
    rows = (
        "return [...document.querySelectorAll('#explorer-table tbody tr')]"
        ".map((r) => [...r.cells].map((c) => c.textContent))"
    )
    first = page.execute_script(rows)
    assert {line[8] for line in first} == {"node-record"}
    means = [float(line[3]) for line in first]
    assert means == sorted(means, reverse=True)
    page.execute_script(
        "const f = document.getElementById('cells-form'); f.elements.unit.value = 'edge';"
        "f.elements.answers.value = 'everyone'; f.dispatchEvent(new Event('input'))"
    )
    assert {line[8] for line in page.execute_script(rows)} == {"edge"}
    page.execute_script("document.querySelector('#explorer-table th button').click()")
    labels = [line[0] for line in page.execute_script(rows)]
    assert labels == sorted(labels, key=str.lower)
    count = page.execute_script("return document.querySelector('#cells-form output').value")
    page.execute_script("document.querySelector('#cells-form [name=download]').click()")
    path = page.downloads / "dpgnn-cells.csv"
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == int(count.split()[0])
    assert {row["unit"] for row in found} == {"edge"}
    assert errors(page) == []


def test_the_explorer_is_used_by_keyboard_alone(visit: Callable[..., Any]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    page = visit("explorer.html")
    page.execute_script("document.querySelector('#cells-form select').focus()")
    seen = []
    for _ in range(40):
        name = page.execute_script(
            "return document.activeElement.name || document.activeElement.textContent"
        )
        seen.append(name)
        if name == "ε":
            break
        ActionChains(page).send_keys(Keys.TAB).perform()
    assert {"study", "unit", "relation", "answers", "text", "epsilon", "dataset", "download"} <= {
        *seen
    }
    assert seen[-1] == "ε"
    outline = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    ActionChains(page).send_keys(Keys.ENTER).perform()
    sorted_by = "return document.querySelector('#explorer-table th[aria-sort]').textContent"
    assert page.execute_script(sorted_by) == "ε"
    assert page.execute_script("return document.activeElement.textContent") == "ε"


def test_the_page_that_answers_filters_by_claim_budget_and_size(visit: Callable[..., Any]) -> None:
    page = visit("choose.html", 390)
    page.execute_script(
        "const [unit, budget, size] = document.querySelectorAll('#choose select');"
        "unit.value = 'node'; budget.value = '4'; size.value = 'over 15,000 nodes';"
        "document.getElementById('choose').dispatchEvent(new Event('change'))"
    )
    shown = page.execute_script(
        "return [...document.querySelectorAll('section > h2')].filter((h) => h.getClientRects().length)"
        ".map((h) => h.textContent)"
    )
    assert (
        [name for name in shown if name.startswith(("edge", "node"))]
        == [name for name in shown if name.startswith("node:")]
        != []
    )
    rows = page.execute_script(
        "return [...document.querySelectorAll('table tr')].filter((r) => r.getClientRects().length)"
        ".map((r) => [...r.cells].filter((c) => c.getClientRects().length).map((c) => c.textContent))"
    )
    heads = {cell for row in rows for cell in row if "(" in cell}
    assert any(name.startswith("physics") for name in heads)
    assert not any(name.startswith("cora") for name in heads)
    assert [row[0] for row in rows if row[0] in {"1", "2", "4", "8"}] == ["4"]
