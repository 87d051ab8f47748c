"""The configuration as a file, from the download to the change, in a browser."""

from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_every_page import browser, sample
from tests.end_to_end.portal.test_in_a_browser import pytestmark
from tests.screenshots.pages import Reader, View, context_of
from tests.screenshots.sample import Sample

__all__ = ["browser", "pytestmark", "sample"]

WIDE = View(width=1280, theme="light")


def groups_in(page: Page, into: Path) -> list[Any]:
    """Return the groups of the file that the page offers."""
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    download.value.save_as(into)
    groups: list[Any] = yaml.safe_load(into.read_text())["groups"]
    return groups


def test_an_operator_downloads_the_file_changes_a_share_and_applies_it(
    live_server: LiveServer, sample: Sample, browser: Browser, tmp_path: Path
) -> None:
    context = context_of(browser, WIDE, url=live_server.url, cookie=sample.cookies[Reader.OPERATOR])
    page = context.new_page()
    page.goto(live_server.url)
    page.locator("nav[aria-label=Main]").get_by_role("link", name="Configuration").click()
    group = groups_in(page, tmp_path / "before.yaml")[0]
    changed = tmp_path / "changed.yaml"
    # With the ends of lines of another system.
    changed.write_bytes(f"groups:\r\n- {{name: {group['name']}, vo: {group['vo']}, priority: 4321}}\r\n".encode())
    page.get_by_label("File").set_input_files(changed)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="The file would change 1 row")).to_be_visible()
    expect(page.get_by_role("region", name="Differences")).to_contain_text("4321")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("The file is applied: 1 change.")).to_be_visible()
    assert groups_in(page, tmp_path / "after.yaml")[0]["priority"] == 4321
    context.close()
