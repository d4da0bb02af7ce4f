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
PAGES = (
    "index.html", "choose.html", "explorer.html", "results.html", "accounting.html",
    "search.html", "genindex.html",
)  # fmt: skip
CONTRAST = """
const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const opaque = (p) => p.length === 3 || p[3] > 0.99;
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const p = parts(getComputedStyle(at).backgroundColor);
    if (p.length && opaque(p)) return p;
  }
  return [255, 255, 255];
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
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        browser.get_log("browser")
        browser.get((site / name).as_uri())
        browser.execute_script("localStorage.clear()")
        if name == "explorer.html":
            wait_for(browser, "return document.querySelector('#explorer-chart svg')")
        return browser

    return open_page


def wait_for(browser: Any, script: str, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := browser.execute_script(script)):
        assert time.monotonic() < end, script
        time.sleep(0.05)
    return found


def errors(browser: Any) -> list[str]:
    return [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]


@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_are_readable_and_have_no_errors(
    visit: Callable[..., Any], width: int, scheme: str
) -> None:
    for name in PAGES:
        page = visit(name, width, scheme)
        theme = page.execute_script("return document.documentElement.dataset.theme")
        assert theme == scheme, name
        assert page.execute_script("return document.documentElement.scrollWidth") <= width, name
        assert page.execute_script(CONTRAST) == [], (name, scheme)
        assert errors(page) == [], name


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
