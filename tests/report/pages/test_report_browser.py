"""The page in a real browser without any network: charts, sorting, filtering, details, on desk and phone."""

from __future__ import annotations

import json
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
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
WIDE, NARROW = (1200, 900), (390, 800)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


@pytest.fixture
def visit(browser: Any, written: Path) -> Callable[..., Any]:
    """Opens a page in a window of a given size, scrolls through it and waits for its charts."""

    def open_page(size: tuple[int, int], path: Path | None = None) -> Any:
        width, height = size
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        for log in ("browser", "performance"):
            browser.get_log(log)
        page = path or written / "studies" / "toy" / "report.html"
        browser.get(page.as_uri())
        for top in range(0, browser.execute_script("return document.body.scrollHeight"), height):
            browser.execute_script(f"scrollTo({{top: {top}, behavior: 'instant'}})")
            time.sleep(0.05)
        # a busy machine may have shown no frame where a chart was passed
        left = "const left = document.querySelector('.chart:not([data-drawn])');"
        show = "left?.scrollIntoView({behavior: 'instant'});"
        wait_for(browser, f"{left} {show} return !left")
        return browser

    return open_page


def wait_for(browser: Any, script: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not browser.execute_script(script):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def shown_rows(browser: Any) -> int:
    script = "return [...document.getElementById('toy-cells-table').tBodies].filter(b => !b.hidden).length"
    return int(browser.execute_script(script))


def column(browser: Any, index: int) -> list[str]:
    script = (
        "return [...document.getElementById('toy-cells-table').tBodies]"
        f".map(b => b.rows[0].cells[{index}].textContent.trim())"
    )
    return list(browser.execute_script(script))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "phone"])
def test_the_page_opens_without_errors_or_requests_and_draws_its_charts(
    visit: Callable[..., Any], size: tuple[int, int], tmp_path: Path
) -> None:
    browser = visit(size)
    assert browser.get_log("browser") == []
    requested = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requested.add(message["params"]["request"]["url"].split(":")[0])
    # chrome and chrome-untrusted are pages inside the browser, such as its empty tab
    assert requested <= {"file", "data", "chrome", "chrome-untrusted"}
    for mark, least in (("line", 12), ("symbol", 20)):
        drawn = f"return document.querySelectorAll('.view svg .mark-{mark} path').length"
        assert browser.execute_script(drawn) >= least
    assert browser.execute_script("return document.querySelectorAll('figure.broken').length") == 0
    # nothing sticks out sideways
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= size[0]
    image = tmp_path / f"{size[0]}.png"
    assert browser.save_screenshot(str(image))
    assert image.stat().st_size > 10_000


def test_hints_and_menus_of_charts_are_drawn_by_the_pages_own_style_alone(
    visit: Callable[..., Any],
) -> None:
    browser = visit(WIDE)
    browser.execute_script("document.querySelector('.vega-embed summary').click()")
    menu = "document.querySelector('.vega-actions')"
    assert browser.execute_script(f"return getComputedStyle({menu}).position") == "absolute"
    browser.execute_script(
        "const all = [...document.querySelectorAll('.view svg .mark-symbol path')];"
        "const s = all.find(p => p.getBBox().width);"
        "s.scrollIntoView({behavior: 'instant', block: 'center'}); const r = s.getBoundingClientRect();"
        "for (const kind of ['pointermove', 'mousemove']) s.dispatchEvent(new PointerEvent(kind,"
        " {bubbles: true, clientX: r.x + r.width / 2, clientY: r.y + r.height / 2}))"
    )
    hint = "document.getElementById('vg-tooltip-element')"
    wait_for(browser, f"return {hint}?.classList.contains('visible')")
    assert browser.execute_script(f"return getComputedStyle({hint}).position") == "fixed"
    assert browser.execute_script("return document.querySelectorAll('style').length") == 1
    assert browser.get_log("browser") == []


def test_the_page_runs_no_code_and_takes_no_style_but_its_own(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    browser.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true';"
        "const style = document.createElement('style'); style.textContent = 'h1 { color: rgb(1, 2, 3) }';"
        "document.head.append(script, style);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = true\">');"
    )
    wait_for(browser, "return document.images[document.images.length - 1].complete")
    assert browser.execute_script("return window.ran ?? null") is None
    color = "return getComputedStyle(document.querySelector('h1')).color"
    assert browser.execute_script(color) != "rgb(1, 2, 3)"
    blocked = [line["message"] for line in browser.get_log("browser")]
    assert sum("Content Security Policy" in line for line in blocked) >= 3


def test_columns_sort_by_value_in_both_directions(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    heads = "document.querySelectorAll('#toy-cells-table thead th')"
    for index, kind in ((5, float), (0, str)):
        for state in ("ascending", "descending"):
            browser.execute_script(f"{heads}[{index}].querySelector('button').click()")
            values = [kind(value) for value in column(browser, index)]
            assert values == sorted(values, reverse=state == "descending")
            script = f"return {heads}[{index}].getAttribute('aria-sort')"
            assert browser.execute_script(script) == state


def test_epsilons_sort_as_numbers_with_infinity_last(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    browser.execute_script(
        "document.querySelectorAll('#toy-cells-table thead th')[4].querySelector('button').click()"
    )
    values = column(browser, 4)
    assert values == ["1"] * 8 + ["8"] * 8 + ["∞"] * 4


def test_the_table_filters_by_words_and_by_choices(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    assert shown_rows(browser) == 20
    text = "const i = document.querySelector(\"[data-filter-text='toy-cells-table']\");"
    fire = "i.dispatchEvent(new Event('input'));"
    browser.execute_script(f"{text} i.value = 'beta sound'; {fire}")
    assert shown_rows(browser) == 6
    status = (
        "return document.querySelector(\"[data-filters='toy-cells-table'] .shown\").textContent"
    )
    assert browser.execute_script(status) == "6 of 20 rows"
    choose = (
        "const s = document.querySelector("
        "\"[data-filter-table='toy-cells-table'][data-filter-column='{}']\");"
        "s.value = '{}'; s.dispatchEvent(new Event('change'));"
    )
    browser.execute_script(choose.format(4, "8"))
    assert shown_rows(browser) == 3
    browser.execute_script(f"{text} i.value = ''; {fire}")
    browser.execute_script(choose.format(1, "GAP"))
    assert shown_rows(browser) == 2


def test_details_open_and_the_command_can_be_copied(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    browser.execute_script("document.querySelector('#toy-cells-table button.more').click()")
    detail = "document.getElementById('toy-cells-table-detail-1')"
    assert browser.execute_script(f"return getComputedStyle({detail}).display") == "table-row"
    browser.execute_script(f"{detail}.querySelector('button.copy').click()")
    wait_for(browser, f"return {detail}.querySelector('button.copy').textContent == 'Copied'")


def test_entries_and_budgets_are_switched_in_the_charts(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    figure = "document.getElementById('toy-training-curves')"
    count = f"return {figure}.querySelectorAll('.view svg .mark-line path').length"
    before = int(browser.execute_script(count))
    browser.execute_script(f"{figure}.querySelector('[data-entry=\"gap\"]').click()")
    wait_for(browser, f"{count} < {before}")
    paths = f"return [...{figure}.querySelectorAll('.mark-line path')].map(p => p.getAttribute('d')).join()"
    old = json.dumps(browser.execute_script(paths))
    select = f"const s = {figure}.querySelector('[data-signal=\"column\"]');"
    browser.execute_script(f"{select} s.value = 'train_loss'; s.dispatchEvent(new Event('change'))")
    wait_for(browser, f"{paths} != {old}")


def test_all_entries_of_a_long_legend_are_switched_at_once(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    figure = "document.getElementById('toy-class-accuracy')"
    count = f"return {figure}.querySelectorAll('.view svg path[role=graphics-symbol]').length"
    checked = f"return {figure}.querySelectorAll('[data-entry]:checked').length"
    before, entries = (int(browser.execute_script(script)) for script in (count, checked))
    assert before > entries > 4
    browser.execute_script(f"{figure}.querySelector('[data-pick=\"\"]').click()")
    wait_for(browser, f"{count} === 0")
    assert browser.execute_script(checked) == 0
    browser.execute_script(f"{figure}.querySelector('[data-pick=all]').click()")
    wait_for(browser, f"{count} === {before}")
    assert browser.execute_script(checked) == entries


def test_tables_become_cards_on_a_phone(visit: Callable[..., Any]) -> None:
    browser = visit(NARROW)
    cell = "document.querySelector('#toy-cells-table tbody td')"
    assert browser.execute_script(f"return getComputedStyle({cell}).display") == "flex"
    label = browser.execute_script(f"return getComputedStyle({cell}, '::before').content")
    assert label == '"Data set"'
    beyond = "return document.querySelectorAll('#toy-cells-table tbody.beyond').length"
    assert browser.execute_script(beyond) == 15
    browser.execute_script(
        "document.querySelector(\"button.all[data-table='toy-cells-table']\").click()"
    )
    assert browser.execute_script(beyond) == 0


@pytest.mark.parametrize(("width", "font"), [(320, 16), (390, 32)])
def test_the_page_is_no_wider_than_the_screen_and_grows_with_the_readers_letters(
    visit: Callable[..., Any], width: int, font: int
) -> None:
    browser = visit((width, 800))
    # what a browser's setting of its letters does, but for media queries: those are met at this width
    browser.execute_script(f"document.documentElement.style.fontSize = '{font}px'")
    assert browser.execute_script("return getComputedStyle(document.body).fontSize") == f"{font}px"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_on_a_phone_every_table_is_sorted_by_a_choice_and_hides_no_button(
    visit: Callable[..., Any],
) -> None:
    browser = visit(NARROW)
    hidden = (
        "return [...document.querySelectorAll('button.sort')].filter(b => b.offsetParent).length"
    )
    assert browser.execute_script(hidden) == 0
    without = (
        "return [...document.querySelectorAll('table.sortable')].filter(t => t.tBodies.length > 1 && "
        "!document.querySelector(`[data-sort-table='${t.id}']`).offsetParent).map(t => t.id)"
    )
    assert browser.execute_script(without) == []
    id_ = "toy-rankings-table"
    select = f"document.querySelector(\"[data-sort-table='{id_}']\")"
    heads = list(browser.execute_script(f"return [...{select}.options].map(o => o.text)"))
    index = heads.index("95 % interval") - 1
    down = f"document.querySelector(\"[data-sort-down='{id_}']\")"
    values = (
        f"return [...document.getElementById('{id_}').tBodies].map(b => b.rows[0].cells[{index}]"
        ".dataset.sort).filter(Boolean).map(Number)"
    )
    for descending in (False, True):
        script = f"{select}.value = '{index}'; {down}.checked = {str(descending).lower()};"
        browser.execute_script(f"{script} {select}.dispatchEvent(new Event('change'))")
        found = list(browser.execute_script(values))
        assert len(found) > 2
        assert found == sorted(found, reverse=descending)


def test_printing_shows_the_printed_figures_and_all_rows(visit: Callable[..., Any]) -> None:
    browser = visit(WIDE)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = "return getComputedStyle(document.querySelector('{}')).display"
        assert browser.execute_script(shown.format(".chart")) == "none"
        assert browser.execute_script(shown.format("img.static")) != "none"
        assert browser.execute_script(shown.format("nav")) == "none"
        hidden = (
            "return [...document.querySelectorAll('tbody')].filter(b => !b.offsetHeight).length"
        )
        assert browser.execute_script(hidden) == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_joined_page_works_the_same_way(visit: Callable[..., Any], written: Path) -> None:
    browser = visit(WIDE, written / "report.html")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.querySelectorAll('.study').length") == 2
    browser.execute_script("document.querySelector('#studies a[href=\"#toy2-cells\"]').click()")
    assert browser.current_url.endswith("#toy2-cells")
