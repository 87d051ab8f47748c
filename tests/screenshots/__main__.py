"""Makes screenshots of pages: ``python -m tests.screenshots --into docs/screenshots --renew``.

It starts servers of its own, with a sample of jobs, and the machine's Chromium.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.surroundings import surroundings
from tests.screenshots.pages import ARGUMENTS, PAGES, PROVIDERS, VIEWS, Page, Reader, View, context_of, open_page

if TYPE_CHECKING:
    from tests.screenshots.sample import Sample

#: With a mail server the account has its choice of mail; none is sent, as no user of the sample wants any.
SETTINGS = {
    "WMS_EMAIL_URL": "smtp://localhost",
    "WMS_EMAIL_FROM": "wms@example.org",
    "WMS_OIDC_PROVIDERS": PROVIDERS,
}
#: Longer pages are cut: their rest looks like the rest of the screenshot.
LARGEST_HEIGHT = 1600


def main(arguments: Sequence[str]) -> int:
    """Make the screenshots; return 1 if there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="Directory of the PNG files.")
    parser.add_argument("--pages", nargs="*", choices=[page.name for page in PAGES], help="These pages only.")
    parser.add_argument(
        "--views", nargs="*", choices=[str(view) for view in VIEWS], help="These widths and themes only."
    )
    parser.add_argument("--renew", action="store_true", help="Those only that the directory has already.")
    options = parser.parse_args(arguments)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.stderr.write("chromium is not installed\n")
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    pages = [page for page in PAGES if not options.pages or page.name in options.pages]
    with surroundings(settings=SETTINGS) as ready, ready.empty_database():
        # Imports models, which can be loaded from here on.
        sample: Sample = import_module("tests.screenshots.sample").make_sample()
        with ready.web(processes=1) as web, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
            for view in VIEWS:
                if not options.views or str(view) in options.views:
                    shown = [page for page in pages if not options.renew or _path(page, view, options.into).exists()]
                    _make(browser, view, shown, sample, url=f"http://127.0.0.1:{web.port}", into=options.into)
            browser.close()
    return 0


def _path(page: Page, view: View, into: Path) -> Path:
    return into / f"{page.name}-{view}.png"


def _make(browser: Browser, view: View, pages: Sequence[Page], sample: "Sample", *, url: str, into: Path) -> None:
    for reader in Reader:
        context = context_of(browser, view, url=url, cookie=sample.cookies.get(reader))
        for page in (page for page in pages if page.reader is reader):
            tab = context.new_page()
            open_page(tab, page, url=url, ids=sample.ids)
            height = min(LARGEST_HEIGHT, int(tab.evaluate("document.documentElement.scrollHeight")))
            tab.set_viewport_size({"width": view.width, "height": max(900, height)})
            tab.screenshot(path=_path(page, view, into), animations="disabled")
            tab.close()
        context.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
