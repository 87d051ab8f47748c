"""Log-in by OpenID Connect in a real browser, whose content rules forbid that a form leads to another host."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests import oidc
from tests.end_to_end.portal.test_in_a_browser import ARGUMENTS, CHROMIUM, PASSWORD, pytestmark
from tests.factories import make_group, make_user
from tests.oidc import ScriptedProvider

__all__ = ["pytestmark"]


@pytest.fixture
def chromium(transactional_db: None) -> Iterator[Browser]:
    """Return a browser; it is the last fixture of a test, as no other may read the database while it runs."""
    assert CHROMIUM, "chromium is not installed, and WMS_TESTS_REQUIRE_BROWSER is set"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def provider(transactional_db: None, settings: Settings) -> Iterator[ScriptedProvider]:
    with oidc.scripted_provider(settings) as provider:
        provider.claims = {"preferred_username": "alice"}
        yield provider


def test_the_provider_button_logs_in_with_and_without_javascript(
    live_server: LiveServer, provider: ScriptedProvider, chromium: Browser
) -> None:
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


@pytest.fixture
def issuer(transactional_db: None, settings: Settings) -> Iterator[str]:
    """Return a provider that others have written, for a user who has had a password before."""
    with oidc.mock_provider(settings) as issuer:
        make_user(username="alice", password=PASSWORD, groups=[make_group(name="lhcb_user")])
        yield issuer


def test_a_user_with_a_password_connects_an_account_logs_in_by_it_and_disconnects_it(
    live_server: LiveServer, issuer: str, chromium: Browser
) -> None:
    page = chromium.new_page()
    page.goto(f"{live_server.url}/accounts/login/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("link", name="alice").click()

    page.get_by_role("button", name="Connect CERN").click()
    confirm_password(page)
    page.get_by_placeholder("sub").fill("alice-at-cern")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("status")).to_have_text("The account is connected: you can log in by it from now on.")
    expect(page.get_by_text("alice-at-cern, connected")).to_be_visible()

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in with CERN").click()
    page.get_by_placeholder("sub").fill("alice-at-cern")
    page.get_by_role("button", name="Authorize").click()
    page.get_by_role("link", name="alice", exact=True).click()
    expect(page.get_by_role("listitem").filter(has_text="lhcb_user of")).to_be_visible()

    page.get_by_role("button", name="Disconnect CERN").click()
    confirm_password(page)
    expect(page.get_by_role("status")).to_have_text("The account is disconnected. You no longer log in by it.")
    expect(page.get_by_text("CERN not connected")).to_be_visible()


def confirm_password(page: Page) -> None:
    page.get_by_role("heading", name="Is it you?").wait_for()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
