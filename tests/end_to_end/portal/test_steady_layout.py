"""Pages whose content does not move when something arrives later: verdicts, editors, charts, relative times."""

import time
from typing import Final

import pytest
from playwright.sync_api import Browser, Route, expect
from playwright.sync_api import Page as Tab
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_every_page import browser, sample
from tests.end_to_end.portal.test_in_a_browser import pytestmark
from tests.factories import make_ce, make_queue, make_site
from tests.screenshots.pages import PAGES, WIDTHS, Reader, View, context_of, open_page
from tests.screenshots.sample import Sample

__all__ = ["browser", "pytestmark", "sample"]

#: A fifth of the layout shift up to which browsers call a page good.
MOST: Final = 0.02
OBSERVE: Final = """
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      const nodes = entry.sources.map((source) => source.node);
      const where = nodes.map((node) => node?.outerHTML?.slice(0, 80) ?? String(node?.textContent));
      window.shifts.push([entry.value, where]);
    }
  }).observe({ type: "layout-shift", buffered: true });
"""
#: {page: selector of what arrives last}.
LAST: Final = {
    "home": "time[title]",
    "jobs": "time[title]",
    "submission": "time[title]",
    "job-done": "time[title]",
    "job-resources": "figure.chart:nth-of-type(2) canvas",
    "plots": ".plots > :nth-child(6) canvas",
    "submit": "main",
    "submit-jdl": "#check .message",
    "submit-json": "#check .message",
}
SECONDS_OF_SCRIPT: Final = 0.15


def arrives_late(route: Route) -> None:
    """Answer after the page was painted without the script."""
    time.sleep(SECONDS_OF_SCRIPT)
    route.continue_()


def shifts_of(tab: Tab) -> tuple[float, object]:
    """Return the sum of the layout shifts until now, and where they were."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shifts = tab.evaluate("window.shifts")
    return sum(value for value, _ in shifts), shifts


@pytest.fixture
def queues(sample: Sample) -> None:
    """Create two queues more, so that the panel says what excludes one."""
    make_queue(ce=make_ce(site=make_site(name="LCG.GRIDKA.de")), cpu_time_s=5000)


@pytest.mark.parametrize("width", WIDTHS)
def test_late_content_does_not_shift_the_layout(
    width: int, live_server: LiveServer, sample: Sample, queues: None, browser: Browser
) -> None:
    view = View(width=width, theme="light")
    context = context_of(browser, view, url=live_server.url, cookie=sample.cookies[Reader.PHYSICIST])
    context.add_init_script(OBSERVE)
    context.route("**/*.js", arrives_late)
    moved: list[object] = []
    for page in (page for page in PAGES if page.name in LAST):
        tab = context.new_page()
        open_page(tab, page, url=live_server.url, ids=sample.ids)
        tab.locator(LAST[page.name]).first.wait_for(state="attached")
        if page.name == "submit":
            tab.get_by_label("Executable").fill("/bin/echo")
            expect(tab.locator("#check .message")).to_be_visible()
        total, where = shifts_of(tab)
        if total >= MOST:
            moved.append((page.name, total, where))
        tab.close()
    context.close()
    assert not moved
