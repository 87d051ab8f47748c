"""The header in narrow windows: one line, with a menu that needs neither scripts nor a mouse."""

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_every_page import RUN_AXE, SERIOUS, browser, sample
from tests.end_to_end.portal.test_in_a_browser import pytestmark
from tests.screenshots.pages import Reader, View, context_of
from tests.screenshots.sample import Sample

__all__ = ["browser", "pytestmark", "sample"]

NARROW = View(width=390, theme="light")
#: Pixels of one line of the header.
ONE_LINE = 48


@pytest.mark.parametrize("address", ["/", "/admin/", "/api/v1/docs/"])
def test_the_menu_is_opened_and_closed_by_keys(
    address: str, live_server: LiveServer, sample: Sample, browser: Browser
) -> None:
    context = context_of(browser, NARROW, url=live_server.url, cookie=sample.cookies[Reader.OPERATOR])
    page = context.new_page()
    page.goto(live_server.url + address)
    header, button, menu = (
        page.locator("header.top"),
        page.get_by_role("button", name="Menu"),
        page.locator("nav[aria-label=Main]"),
    )
    box = header.bounding_box()
    assert box is not None
    assert box["height"] <= ONE_LINE
    expect(menu).to_be_hidden()
    button.press("Enter")
    expect(menu).to_be_visible()
    page.keyboard.press("Tab")
    expect(menu.get_by_role("link", name="Home")).to_be_focused()
    expect(page.get_by_role("button", name="Log out")).to_be_in_viewport()
    page.evaluate(AXE_SCRIPT)
    results: Any = page.evaluate(RUN_AXE.replace("document,", "document.querySelector('header.top'),"))
    assert [each["id"] for each in results["violations"] if each["impact"] in SERIOUS] == []
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(button).to_be_focused()
    # Wide, nothing is to be opened.
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(menu).to_be_visible()
    expect(button).to_be_hidden()
    box = header.bounding_box()
    assert box is not None
    assert box["height"] <= ONE_LINE
    expect(page.get_by_role("button", name="Log out")).to_be_in_viewport()
    context.close()


def test_the_menu_works_without_scripts(live_server: LiveServer, sample: Sample, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 900}, java_script_enabled=False)
    cookie = sample.cookies[Reader.PHYSICIST]
    context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": live_server.url}])
    page = context.new_page()
    page.goto(live_server.url)
    menu = page.locator("nav[aria-label=Main]")
    page.get_by_role("button", name="Menu").click()
    expect(menu).to_be_visible()
    page.mouse.click(20, 800)
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    menu.get_by_role("link", name="Sites").click()
    expect(page.get_by_role("heading", name="Sites", exact=True)).to_be_visible()
    context.close()
