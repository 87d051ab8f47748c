"""The pages of which the script makes screenshots, and that a test opens in each view. A new page is a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final

from playwright.sync_api import Browser, BrowserContext
from playwright.sync_api import Page as Tab


class Reader(StrEnum):
    """The user who opens a page, one of the sample (``sample.py``)."""

    NOBODY = "nobody"
    #: Has jobs in each status.
    PHYSICIST = "alice"
    #: Has no jobs, groups or tokens.
    NEWCOMER = "nora"
    OPERATOR = "olga"
    #: Of the VO, not an operator.
    MANAGER = "mona"
    #: Has come by OpenID Connect, and is not admitted yet.
    WAITING = "wanda@cern"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its name is that of its screenshots."""

    name: str
    #: Names in braces are ids of the sample.
    address: str
    reader: Reader = Reader.PHYSICIST
    #: A selector of what appears last, where a script makes the page.
    ready: str = "main"
    #: A selector of what is pressed on the page of the address, and leads to the page.
    press: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A width of the window, in CSS pixels, and a theme."""

    width: int
    theme: str

    def __str__(self) -> str:
        return f"{self.width}-{self.theme}"


#: Pages of the administration, which operators and managers see: {name: address}.
_ADMINISTRATION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admin-limits": "taskqueues/limit/",
        "admin-limit": "taskqueues/limit/{limit}/change/",
        "admin-pilots": "pilots/pilot/",
        "admin-pilot": "pilots/pilot/{pilot}/change/",
        "admin-vos": "accounts/vo/",
        "admin-vo": "accounts/vo/{vo}/change/",
        "admin-throttles": "resources/sitethrottle/",
        "admin-throttle": "resources/sitethrottle/{throttled}/change/",
        "admin-ces": "resources/computingelement/",
        "admin-ce": "resources/computingelement/{ce}/change/",
        "admin-queues": "resources/queue/",
        "admin-queue": "resources/queue/{queue}/change/",
        "admin-black-holes": "pilots/blackhole/",
        "admin-ces-health": "pilots/cehealth/",
        "admin-task-queues": "taskqueues/taskqueue/",
        "admin-downtimes": "resources/downtime/",
        "admin-downtime": "resources/downtime/{downtime}/change/",
        "admin-leases": "matching/match/",
        "admin-site-administrators": "resources/siteadministrator/",
        "admin-groups": "accounts/group/",
        "admin-users": "accounts/user/",
        "admin-efficiency": "matching/pilotefficiency/",
    }
)
#: The same, of pages after a button was pressed: {name: (address, selector of the button)}.
_AFTER_A_BUTTON: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "admin-ban": ("resources/site/{site}/change/", ".row-actions [value=ban]"),
        "admin-kill": ("pilots/pilot/{pilot}/change/", ".row-actions [value=kill]"),
        "admin-confirm": ("taskqueues/limit/add/?vo={vo}&running=0", "[name=_save]"),
    }
)

PAGES: Final = (
    Page(name="log-in", address="/accounts/login/", reader=Reader.NOBODY),
    Page(name="home", address="/"),
    Page(name="home-manager", address="/", reader=Reader.OPERATOR),
    Page(name="jobs", address="/jobs/"),
    Page(name="jobs-none", address="/jobs/", reader=Reader.NEWCOMER),
    Page(name="job-done", address="/jobs/{done}/"),
    Page(name="job-failed", address="/jobs/{failed}/"),
    Page(name="retry", address="/jobs/retry/?q=status:failed"),
    Page(name="job-running", address="/jobs/{running}/"),
    Page(name="job-waiting", address="/jobs/{waiting}/"),
    Page(name="job-files", address="/jobs/{done}/?tab=files"),
    Page(name="job-resources", address="/jobs/{running}/?tab=resources"),
    Page(name="job-history", address="/jobs/{done}/?tab=history"),
    Page(name="job-description", address="/jobs/{done}/?tab=description"),
    Page(name="submissions", address="/submissions/"),
    Page(name="submission", address="/submissions/{submission}/"),
    Page(name="failures", address="/failures/"),
    Page(name="why", address="/jobs/why/"),
    Page(name="submit", address="/jobs/submit/"),
    Page(name="submit-jdl", address="/jobs/submit/jdl/"),
    Page(name="submit-json", address="/jobs/submit/json/"),
    Page(name="task-queues", address="/task-queues/"),
    Page(name="task-queue", address="/task-queues/{task_queue}/"),
    Page(name="sites", address="/sites/"),
    Page(name="site", address="/sites/{site_name}/"),
    Page(name="site-operator", address="/sites/LCG.RAL.uk/", reader=Reader.OPERATOR),
    Page(
        name="site-downtime",
        address="/sites/LCG.RAL.uk/",
        reader=Reader.OPERATOR,
        press="[id^=change-downtime] summary",
    ),
    Page(name="sites-by-jobs", address="/sites/?sort=-jobs"),
    Page(name="ce", address="/sites/{site_name}/ces/ce01.cern.ch/"),
    Page(name="ce-operator", address="/sites/LCG.RAL.uk/ces/ce01.ral.uk/", reader=Reader.OPERATOR),
    Page(name="queue", address="/sites/{site_name}/ces/ce01.cern.ch/queues/grid/", reader=Reader.OPERATOR),
    Page(name="site-tokens", address="/sites/{site_name}/tokens/", reader=Reader.OPERATOR),
    Page(name="shares", address="/shares/"),
    Page(name="shares-manager", address="/shares/", reader=Reader.OPERATOR),
    Page(name="plots", address="/plots/"),
    Page(name="accounting", address="/accounting/?by=group&and_by=month"),
    Page(name="pilots", address="/pilots/", reader=Reader.OPERATOR),
    Page(name="pilots-summary", address="/pilots/summary/", reader=Reader.OPERATOR),
    Page(name="pilot", address="/pilots/{pilot}/", reader=Reader.OPERATOR),
    Page(name="leases", address="/leases/", reader=Reader.OPERATOR),
    Page(name="configuration", address="/configuration/", reader=Reader.OPERATOR),
    Page(name="account", address="/accounts/"),
    Page(name="account-none", address="/accounts/", reader=Reader.NEWCOMER),
    Page(name="password", address="/accounts/password/"),
    Page(name="tokens", address="/accounts/tokens/"),
    Page(name="second-factor", address="/accounts/second-factor/"),
    Page(name="groups", address="/accounts/groups/"),
    Page(name="help", address="/help/"),
    Page(name="waiting", address="/accounts/waiting/", reader=Reader.WAITING),
    Page(name="operations", address="/operations/", reader=Reader.OPERATOR),
    Page(name="people", address="/people/waiting/", reader=Reader.OPERATOR),
    Page(name="people-of-vos", address="/people/", reader=Reader.OPERATOR),
    Page(name="person", address="/people/{user}/", reader=Reader.OPERATOR),
    Page(name="changes", address="/changes/", reader=Reader.OPERATOR),
    Page(name="revert", address="/changes/{change}/revert/", reader=Reader.OPERATOR),
    Page(name="admin", address="/admin/", reader=Reader.OPERATOR),
    Page(name="admin-jobs", address="/admin/jobs/job/", reader=Reader.OPERATOR),
    Page(name="admin-sites", address="/admin/resources/site/", reader=Reader.OPERATOR),
    Page(name="admin-site", address="/admin/resources/site/{site}/change/", reader=Reader.OPERATOR),
    Page(name="admin-group", address="/admin/accounts/group/{group}/change/", reader=Reader.OPERATOR),
    Page(name="admin-history", address="/admin/accounts/configurationchange/", reader=Reader.OPERATOR),
    Page(name="admin-group-history", address="/admin/accounts/group/{group}/history/", reader=Reader.OPERATOR),
    Page(name="admin-user", address="/admin/accounts/user/{user}/change/", reader=Reader.OPERATOR),
    *(
        Page(name=f"{name}{of}", address=f"/admin/{address}", reader=reader)
        for name, address in _ADMINISTRATION.items()
        for reader, of in ((Reader.OPERATOR, ""), (Reader.MANAGER, "-manager"))
    ),
    *(
        Page(name=f"{name}{of}", address=f"/admin/{address}", press=press, ready=".submit-row", reader=reader)
        for name, (address, press) in _AFTER_A_BUTTON.items()
        for reader, of in ((Reader.OPERATOR, ""), (Reader.MANAGER, "-manager"))
    ),
    Page(name="admin-events", address="/admin/accounts/securityevent/", reader=Reader.OPERATOR),
    Page(name="admin-tokens", address="/admin/accounts/apitoken/", reader=Reader.OPERATOR),
    Page(name="admin-directors", address="/admin/pilots/director/", reader=Reader.OPERATOR),
    Page(name="admin-delete", address="/admin/taskqueues/limit/{limit}/delete/", reader=Reader.OPERATOR),
    Page(name="api", address="/api/v1/docs/", ready="#operations-Users-jobs_list"),
)
#: WMS_OIDC_PROVIDERS of the pages; nobody logs in by it.
ISSUER: Final = "https://auth.example.org"
PROVIDERS: Final = f'{{"cern": {{"name": "CERN", "issuer": "{ISSUER}", "client_id": "wms"}}}}'
WIDTHS: Final = (1280, 390)
#: Of the window, in CSS pixels.
HEIGHT: Final = 900
THEMES: Final = ("light", "dark")
VIEWS: Final = tuple(View(width=width, theme=theme) for width, theme in product(WIDTHS, THEMES))
#: Headless, without a sandbox (containers run as root), and silent on the network.
ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def context_of(browser: Browser, view: View, *, url: str, cookie: Mapping[str, str] | None) -> BrowserContext:
    """Return the windows of one reader, with the session of *cookie*, in a width and a theme.

    The theme is chosen by the switch of the header, against that of the system.
    """
    context = browser.new_context(
        viewport={"width": view.width, "height": HEIGHT},
        color_scheme="dark" if view.theme == "light" else "light",
        reduced_motion="reduce",
    )
    context.add_init_script(f'localStorage.setItem("theme", "{view.theme}")')
    if cookie is not None:
        context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": url}])
    return context


def open_page(tab: Tab, page: Page, *, url: str, ids: Mapping[str, object]) -> None:
    """Open the page, and return when it shows all that it shows."""
    tab.goto(url + page.address.format_map(ids))
    if page.press:
        tab.locator(page.press).first.click()
    tab.locator(page.ready).first.wait_for()
