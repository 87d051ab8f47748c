"""Every page in a real browser, in both widths and themes: it keeps the content rules, fits, and can be read by all."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright
from playwright.sync_api import Page as Tab
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_in_a_browser import CHROMIUM, pytestmark
from tests.screenshots.pages import ARGUMENTS, PAGES, PROVIDERS, VIEWS, Page, Reader, View, context_of, open_page
from tests.screenshots.sample import Sample, make_sample

__all__ = ["pytestmark"]

SERIOUS: Final = frozenset({"serious", "critical"})
#: Without a look at style sheets, which it would add to the page as styles that the content rules forbid.
RUN_AXE: Final = "axe.run(document, {resultTypes: ['violations'], preload: false})"
FITS: Final = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


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
    """Yield what is wrong with the page."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:  # a breach of the content security policy is one
            complaints.append(message.text)

    tab.on("console", note)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    open_page(tab, page, url=url, ids=sample.ids)
    if not tab.evaluate(FITS):
        yield "is wider than the window"
    yield from complaints
    tab.evaluate(AXE_SCRIPT)
    results: Any = tab.evaluate(RUN_AXE)
    for violation in results["violations"]:
        if violation["impact"] in SERIOUS:
            places = [node["html"][:150] + " " + node["failureSummary"][:300] for node in violation["nodes"][:3]]
            yield f"{violation['id']} at {len(violation['nodes'])} places: {places}"


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_every_page_keeps_the_rules_fits_and_can_be_read_by_all(
    live_server: LiveServer, sample: Sample, browser: Browser, view: View
) -> None:
    wrong: list[str] = []
    for reader in Reader:
        context = context_of(browser, view, url=live_server.url, cookie=sample.cookies.get(reader))
        for page in (page for page in PAGES if page.reader is reader):
            tab = context.new_page()
            troubles = troubles_of(tab, page, url=live_server.url, sample=sample)
            wrong += [f"{page.name}: {trouble}" for trouble in troubles]
            tab.close()
        context.close()
    assert not wrong, "\n".join(wrong)
