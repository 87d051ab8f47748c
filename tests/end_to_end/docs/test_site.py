"""The documentation as a site: each link leads to something, and a browser asks no other host for anything."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.end_to_end.docs.fences import PROJECT
from tests.end_to_end.installed import ENVIRONMENT
from tests.pace import within
from tests.programs import needed
from tests.screenshots.pages import ARGUMENTS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a link that leads nowhere, and a page that is not in the menu, are errors."""
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=PROJECT,
        env={**ENVIRONMENT, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=within(120),
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return directory


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Serve the site on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_every_block_is_one(site: Path) -> None:
    """The builder leaves backticks whose first line it does not understand."""
    pages = [page for page in site.rglob("*.html") if "```" in page.read_text(encoding="utf-8")]
    assert pages == []


def test_the_site_loads_nothing_from_other_hosts(site: Path, address: str) -> None:
    needed("chromium")
    asked: set[str] = set()
    pages = [page.parent.relative_to(site) for page in site.rglob("index.html") if "adr" not in page.parts]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        tab = chromium.new_page()
        complaints: list[str] = []
        tab.on("request", lambda request: asked.add(request.url))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        for page in pages:
            tab.goto(f"{address}{page}/", wait_until="networkidle")
        tab.goto(f"{address}tutorial/")
        code = tab.locator("code", has_text="wms whoami").first
        # As the button does, which copies what is visible then.
        code.evaluate("code => code.setAttribute('data-md-copying', '')")
        assert code.inner_text().strip() == "wms whoami"
        tab.get_by_role("textbox", name="Search").press_sequentially("priority")
        expect(tab.locator(".md-search-result__item").first).to_be_visible()
        chromium.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(address)] == []
