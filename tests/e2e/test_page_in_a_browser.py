"""The page in a real browser: by keyboard alone, in both themes, narrow, after a session's end."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import CHROMIUM, Page, browser
from support.made_page import made_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium (Debian: chromium)"),
]
NARROW = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": True}
ROWS = "[...document.querySelectorAll('tr[data-name]:not(.why)')]"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    with made_page(60) as found:
        yield found


@pytest.fixture
def page(served: tuple[str, str]) -> Iterator[Page]:
    """The overview, in a browser that is logged in."""
    url, token = served
    with browser() as opened:
        for domain in ("Network", "Page", "Runtime", "Log"):
            opened.do(f"{domain}.enable")
        opened.do("Network.setCookie", name="_token", value=token, url=url)
        go(opened, url)
        yield opened
        assert foreign(opened, url) == []
        assert complaints(opened) == []


def go(page: Page, url: str) -> None:
    page.do("Page.navigate", url=url)
    page.shows("document.readyState === 'complete' && !!document.querySelector('h1')")


def foreign(page: Page, url: str) -> list[str]:
    """Return the requests to other hosts."""
    host = url.split("/")[2]
    asked = [
        each["params"]["request"]["url"]
        for each in page.events
        if each.get("method") == "Network.requestWillBeSent"
    ]
    assert asked
    return [each for each in asked if host not in each]


def complaints(page: Page) -> list[Any]:
    """Return the errors on the console; of a refused request the browser complains itself."""
    found = []
    for each in page.events:
        if each.get("method") == "Runtime.exceptionThrown":
            found.append(each["params"])
        entry = each.get("params", {}).get("entry", {})
        if entry.get("level") == "error" and entry.get("source") != "network":
            found.append(entry)
    return found


def test_by_keyboard_alone(page: Page) -> None:
    """Filter, open what is folded, follow a link, plan a backfill: all has the focus in turn."""
    shown = f"{ROWS}.filter(r => r.checkVisibility()).map(r => r.dataset.name)"
    assert page.says(f"{shown}.length") == 3
    for _ in range(20):
        page.press("Tab")
        if page.says("document.activeElement.id") == "q":
            break
    page.do("Input.insertText", text="P003")
    expected = [f"p003{n}" for n in range(10)]
    assert page.says(f"JSON.stringify({shown}.sort())") == json.dumps(
        expected, separators=(",", ":")
    )
    for _ in range(60):
        page.press("Tab")
        if page.says("document.activeElement.textContent") == "p0031":
            break
    page.press("Enter")
    page.shows("document.querySelector('h1')?.textContent === 'p0031'")
    for _ in range(20):
        page.press("Tab")
        if page.says("document.activeElement.textContent") == "Backfill a window":
            break
    page.press("Enter")
    page.shows("document.querySelector('h1')?.textContent === 'Backfill p0031'")
    page.press("Tab")
    page.press("Tab")
    assert page.says("document.activeElement.name") == "start"


def test_the_theme_of_airflow(page: Page, served: tuple[str, str]) -> None:
    colours = []
    for theme in ("light", "dark"):
        page.says(f"localStorage.theme = '{theme}'")
        go(page, served[0])
        colours.append(page.says("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(245, 247, 249)", "rgb(18, 22, 27)"]


def test_it_fits_a_telephone(page: Page, served: tuple[str, str]) -> None:
    """Nothing has to be moved sideways, but a table within its own box."""
    page.do("Emulation.setDeviceMetricsOverride", **NARROW)
    for path in ("", "pipeline/p0000", "pipeline/p0004", "pipeline/p0001/backfill"):
        go(page, served[0] + path)
        assert page.says("document.documentElement.scrollWidth") <= 420, path


def test_times_are_exact_on_hover(page: Page) -> None:
    title = page.says("document.querySelector('time').title")
    assert "UTC" in title
    assert "ago" in page.says("document.querySelector('tr time').textContent")


def test_the_session_ends(page: Page, served: tuple[str, str]) -> None:
    """A sentence with a link, also where the page refreshes itself."""
    page.do("Network.clearBrowserCookies")
    page.says("refresh()")
    page.shows("document.body.innerText.includes('Your session in Airflow has ended.')")
    assert page.says("document.querySelector('main a').target") == "_top"


def test_the_refresh_takes_nothing_away(page: Page) -> None:
    """What somebody has opened stays open, and the focus stays where it is."""
    page.says("document.getElementById('healthy').open = true")
    page.says("window.marked = document.querySelector('#rows section')")
    page.says("refresh()")
    page.shows("window.marked && !window.marked.isConnected")
    assert page.says("document.getElementById('healthy').open") is True
