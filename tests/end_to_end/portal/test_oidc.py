"""Log-in by OpenID Connect in a real browser, whose content rules forbid that a form leads to another host."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import ConsoleMessage, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests import oidc
from tests.end_to_end.portal.test_in_a_browser import ARGUMENTS, CHROMIUM, pytestmark
from tests.oidc import ScriptedProvider

__all__ = ["pytestmark"]


@pytest.fixture
def provider(transactional_db: None, settings: Settings) -> Iterator[ScriptedProvider]:
    with oidc.scripted_provider(settings) as provider:
        provider.claims = {"preferred_username": "alice"}
        yield provider


def test_the_button_leads_to_the_provider_and_back_with_and_without_javascript(
    live_server: LiveServer, provider: ScriptedProvider
) -> None:
    assert CHROMIUM, "chromium is not installed, and WMS_TESTS_REQUIRE_BROWSER is set"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for has_scripts in (True, False):
            page = chromium.new_context(java_script_enabled=has_scripts).new_page()
            complaints: list[str] = []

            def note(message: ConsoleMessage, said: list[str] = complaints) -> None:
                said.append(message.text)

            page.on("console", note)
            page.goto(f"{live_server.url}/accounts/login/")
            page.get_by_role("button", name="Log in with CERN").click()
            page.get_by_role("heading", name="You wait to be admitted").wait_for()
            assert "alice@cern" in page.inner_text("main")
            assert complaints == []
            page.get_by_role("button", name="Log out").click()
            page.get_by_role("heading", name="Log in", exact=True).wait_for()
        chromium.close()
