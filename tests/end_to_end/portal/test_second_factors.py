"""Second factors in a real browser, with a simulated security key."""

from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_in_a_browser import PASSWORD, Browser, browser, log_in, people, pytestmark
from tests.second_factors import code_of

__all__ = ["browser", "people", "pytestmark"]

KEY = {
    "protocol": "ctap2",
    "transport": "usb",
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def plug_a_key_in(page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})


def set_an_app_up(page: Page) -> str:
    """Set up an authenticator app on the page of second factors, and return its key."""
    page.get_by_role("link", name="Set up an app").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("img", name="The key as a picture").locator("path")).to_have_count(1)
    secret = page.locator("code.key").inner_text()
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Set up").click()
    assert len(page.locator("pre").inner_text().split()) == 10
    page.get_by_role("link", name="I have written them down").click()
    return secret


def use_the_key(page: Page, button: str) -> None:
    """Press a button that asks for the key; it does nothing before the scripts of its page are loaded."""
    page.wait_for_load_state()
    page.get_by_role("button", name=button).click()


def test_bob_sets_second_factors_up_logs_in_with_each_and_removes_them(
    live_server: LiveServer, browser: Browser
) -> None:
    page = browser.page
    plug_a_key_in(page)
    log_in(browser, live_server, username="bob")
    page.get_by_role("link", name="bob").click()
    page.get_by_role("link", name="Second factor", exact=True).click()
    secret = set_an_app_up(page)
    page.get_by_role("link", name="Add a security key").click()
    page.get_by_label("Name").fill("blue key")
    use_the_key(page, "Add")
    page.get_by_text("blue key").first.wait_for()

    page.get_by_role("button", name="Log out").click()
    log_in(browser, live_server, username="bob", to="/jobs/submit/")
    page.get_by_label("Code").fill("000 000")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("The code is wrong or was used before.")).to_be_visible()
    use_the_key(page, "Use a security key")
    page.wait_for_url("**/jobs/submit/")

    page.get_by_role("button", name="Log out").click()
    log_in(browser, live_server, username="bob", to="/accounts/second-factor/")
    page.get_by_label("Code").fill(code_of(secret, steps=1))
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Remove the app").click()
    # The password alone would not do: whoever stole it could take the second factor away.
    expect(page.get_by_label("Password")).to_have_count(0)
    page.get_by_role("link", name="Use a security key").click()
    use_the_key(page, "Use a security key")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("link", name="Remove blue key").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("You have none yet.")).to_be_visible()
    assert browser.complaints == []
