"""The throttle of a site in a real browser: the expression is tried while it is typed."""

import pytest
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_in_a_browser import CHROMIUM, REQUIRED, Browser, browser, log_in, people

__all__ = ("browser", "people")

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="chromium is not installed"),
]


def test_a_manager_types_an_expression_and_reads_its_value_and_its_mistakes(
    live_server: LiveServer, people: None, browser: Browser
) -> None:
    log_in(browser, live_server, username="bob", to="/sites/LCG.CERN.ch/")
    page = browser.page
    page.get_by_text("Set policy, maxima and expression").click()
    field, trial = page.get_by_label("Expression"), page.locator("#trial")
    field.press_sequentially("CurMatchez < 5")
    expect(trial).to_contain_text('Did you mean "CurMatches"?')
    field.fill("CurMatches <")
    expect(trial).to_contain_text("Line 1, column 13: A value is expected here")
    field.fill("")
    page.get_by_label("Most matches").fill("20")
    page.get_by_label("Policy").select_option("matches")
    page.get_by_role("button", name="Set the throttle").click()
    expect(page.get_by_role("status").first).to_have_text("The throttle of LCG.CERN.ch is set.")
    assert browser.complaints == []
