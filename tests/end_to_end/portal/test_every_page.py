"""Every page in a real browser, in both widths and themes: it keeps the content rules, fits, and can be read by all."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright
from playwright.sync_api import Page as Tab
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.cases import quick_cases
from tests.end_to_end.portal.test_in_a_browser import CHROMIUM, pytestmark
from tests.screenshots.pages import (
    ARGUMENTS,
    HEIGHT,
    PAGES,
    PROVIDERS,
    VIEWS,
    WIDTHS,
    Page,
    Reader,
    View,
    context_of,
    open_page,
)
from tests.screenshots.sample import Sample, make_sample

__all__ = ["pytestmark"]

SERIOUS: Final = frozenset({"serious", "critical"})
#: Without a look at style sheets, which it would add to the page as styles that the content rules forbid.
RUN_AXE: Final = "axe.run(document, {resultTypes: ['violations'], preload: false})"
#: A theme changes no more than colours; all else is looked at once in each width.
RUN_AXE_ON_COLOURS: Final = RUN_AXE.replace("{", "{runOnly: ['color-contrast', 'link-in-text-block'], ")
FITS: Final = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
#: The columns of lists of the administration, in a window of the greater width.
SHOWS_ALL_COLUMNS: Final = """[...document.querySelectorAll('#changelist .results')]
  .every((box) => box.scrollWidth <= box.clientWidth)"""
#: After what follows a change of the width or the theme: charts are drawn anew, and colours of the administration fade.
SETTLED: Final = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const fading = document.getAnimations().filter((animation) => animation instanceof CSSTransition);
  await Promise.allSettled(fading.map((transition) => transition.finished));
}"""


@pytest.fixture
def sample(transactional_db: None, settings: Settings) -> Sample:
    """Create the rows before the browser starts: beside its event loop Django refuses to use the database."""
    settings.WMS_EMAIL_URL = "smtp://localhost"  # so that the account has its choice of mail
    settings.WMS_OIDC_PROVIDERS = PROVIDERS
    return make_sample()


@pytest.fixture
def browser(sample: Sample) -> Iterator[Browser]:
    assert CHROMIUM, "chromium is not installed, and WMS_TESTS_REQUIRE_BROWSER is set"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


def troubles_of(tab: Tab, page: Page, *, url: str, sample: Sample) -> Iterator[str]:
    """Yield what is wrong with the page, which is opened once, and seen in each width and theme."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:  # a breach of the content security policy is one
            complaints.append(message.text)

    tab.on("console", note)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    open_page(tab, page, url=url, ids=sample.ids)
    tab.evaluate(AXE_SCRIPT)
    for number, view in enumerate(VIEWS):
        if number:
            show_in(tab, view)
        has_new_width = number == 0 or view.width != VIEWS[number - 1].width
        if not tab.evaluate(FITS):
            yield f"{view}: is wider than the window"
        if view.width == max(WIDTHS) and not tab.evaluate(SHOWS_ALL_COLUMNS):
            yield f"{view}: cuts columns of its list"
        for violation in violations_in(tab, RUN_AXE if has_new_width else RUN_AXE_ON_COLOURS):
            yield f"{view}: {violation}"
        yield from (f"{view}: {complaint}" for complaint in complaints)
        complaints.clear()


def show_in(tab: Tab, view: View) -> None:
    """Give the window the width, and press the switch of the header until the page has the theme."""
    tab.set_viewport_size({"width": view.width, "height": HEIGHT})
    # Against that of the system, as in a new window.
    tab.emulate_media(color_scheme="dark" if view.theme == "light" else "light")
    # As an event: narrow windows have the switch in a menu, and a pointer above it would give it another colour.
    switch = tab.locator("[data-theme-switch]")
    while tab.evaluate("document.documentElement.dataset.theme") != view.theme:
        switch.dispatch_event("click")
    tab.evaluate(SETTLED)


def violations_in(tab: Tab, run_axe: str) -> Iterator[str]:
    """Yield the serious violations, each with the first of its places."""
    results: Any = tab.evaluate(run_axe)
    for violation in results["violations"]:
        if violation["impact"] in SERIOUS:
            places = [node["html"][:150] + " " + node["failureSummary"][:300] for node in violation["nodes"][:3]]
            yield f"{violation['id']} at {len(violation['nodes'])} places: {places}"


@pytest.mark.parametrize(
    "reader", quick_cases([pytest.param(reader, id=reader.name.lower()) for reader in reversed(Reader)], quick=1)
)
def test_every_page_fits_the_window_and_is_accessible(
    live_server: LiveServer, sample: Sample, browser: Browser, reader: Reader
) -> None:
    context = context_of(browser, VIEWS[0], url=live_server.url, cookie=sample.cookies.get(reader))
    wrong: list[str] = []
    for page in (page for page in PAGES if page.reader is reader):
        tab = context.new_page()
        wrong += [f"{page.name}, {trouble}" for trouble in troubles_of(tab, page, url=live_server.url, sample=sample)]
        tab.close()
    context.close()
    assert not wrong, "\n".join(wrong)
