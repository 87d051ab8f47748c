"""The portal and the admin in a real browser, which enforces the content security policy; a test client does not."""

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from django.utils import timezone
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from matching.services.throttles import advertise
from pilots.domain.logs import LogPart
from pilots.models import Pilot
from pilots.services import logs
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_numbers
from tests.factories import (
    NOW,
    make_group,
    make_pilot,
    make_pilot_token,
    make_site,
    make_throttled_site,
    make_user,
    make_vo,
)
from wms.accounts.models import VO
from wms.accounts.services import invite

CHROMIUM = shutil.which("chromium")
#: CI sets it, so that a browser that was not installed is no reason to be green.
REQUIRED = "WMS_TESTS_REQUIRE_BROWSER" in os.environ
#: Headless, without a sandbox (CI runs as root), and silent on the network.
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PASSWORD = "correct horse battery staple"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="chromium is not installed"),
]


@dataclass(frozen=True)
class Browser:
    """One page, with the messages of its console."""

    page: Page
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def people(transactional_db: None) -> None:
    """Create users before the browser starts: beside its event loop Django refuses to use the database."""
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo)
    make_site(name="LCG.CERN.ch", vos=[vo])
    busy = make_throttled_site(name="LCG.RAL.uk", vos=[vo])
    advertise(busy.pk, of_numbers({SUBMITTING: 5, GATHERING: 1, CURRENT: 40}))
    make_user(username="alice", password=PASSWORD, groups=[group])
    bob = make_user(username="bob", password=PASSWORD, staff=True, manages=[vo])
    invite(make_group(name="lhcb_prod", vo=vo), "alice", by=bob, now=timezone.now())


@pytest.fixture
def pilot_token(people: None) -> str:
    """Return the token of a running pilot."""
    return make_pilot_token(make_pilot(vo=VO.objects.get()))


@pytest.fixture
def browser(people: None) -> Iterator[Browser]:
    assert CHROMIUM, "chromium is not installed, and WMS_TESTS_REQUIRE_BROWSER is set"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        opened = Browser(page=chromium.new_page(viewport={"width": 1280, "height": 900}))

        def note(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:  # a breach of the content security policy is one
                opened.complaints.append(message.text)

        opened.page.on("console", note)
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        yield opened
        chromium.close()


def log_in(browser: Browser, live_server: LiveServer, *, username: str, to: str = "/") -> None:
    browser.page.goto(f"{live_server.url}{to}")
    browser.page.get_by_label("Username").fill(username)
    browser.page.get_by_label("Password").fill(PASSWORD)
    browser.page.get_by_role("button", name="Log in").click()
    # With its scripts: they take dropped files and keys.
    browser.page.wait_for_url(lambda url: urlsplit(url).path != "/accounts/login/")


def test_alice_submits_a_job_sees_it_and_kills_it(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice")
    page.get_by_role("link", name="Submit the first job").click()
    page.get_by_label("Executable").fill("./run.sh")
    page.get_by_label("Input files").set_input_files(
        {"name": "run.sh", "mimeType": "", "buffer": b"#!/bin/sh\necho hi\n"}
    )
    page.get_by_label("Job name").fill("from the browser")
    page.get_by_role("button", name="Submit").click()
    # A second message warns that no queue could run it.
    expect(page.get_by_role("status").first).to_have_text("1 job submitted.")
    expect(page.get_by_role("heading", name="from the browser")).to_be_visible()
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    row = page.get_by_role("row").filter(has_text="from the browser")
    expect(row).to_contain_text("Waiting")
    row.get_by_role("link").click()
    page.get_by_text("Kill…").click()
    page.get_by_role("button", name="Kill job").click()
    expect(page.locator(".state")).to_contain_text("Killed by alice")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert browser.complaints == []


def test_alice_accepts_an_invitation_and_makes_and_revokes_a_token(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice")
    page.get_by_role("link", name="Invitations").click()
    page.get_by_role("button", name="Accept lhcb_prod").click()
    expect(page.get_by_role("status")).to_have_text("You are a member of lhcb_prod now.")
    page.get_by_role("link", name="Tokens").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make a token").click()
    assert page.locator("#token").inner_text().startswith("wmsu_")
    page.get_by_role("row").filter(has_text="laptop").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_have_text("The token is revoked.")
    page.get_by_role("link", name="Password").click()
    page.get_by_label("Old password").fill(PASSWORD)
    for label in ("New password (required)", "New password confirmation"):
        page.get_by_label(label).fill("a new and longer passphrase")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status")).to_contain_text("The password is changed.")
    assert browser.complaints == []


def test_everything_works_by_keyboard_and_without_scripts(live_server: LiveServer, browser: Browser) -> None:
    context = browser.page.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    page = context.new_page()
    page.goto(live_server.url)
    page.get_by_label("Username").focus()
    for keys in ("alice", PASSWORD):
        page.keyboard.type(keys)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Submit", exact=True).press("Enter")
    page.get_by_role("button", name="JDL").press("Enter")
    page.get_by_role("button", name="Submit").press("Enter")
    expect(page.get_by_role("status").first).to_have_text("3 jobs submitted.")
    page.get_by_role("link", name="Show the jobs").press("Enter")
    for number in range(3):
        page.get_by_role("checkbox", name="Job ").nth(number).press("Space")
    page.get_by_role("button", name="Kill").press("Enter")
    page.get_by_role("button", name="Kill 3 jobs").press("Enter")
    expect(page.get_by_role("status")).to_have_text("3 jobs killed.")
    context.close()


def test_a_manager_opens_the_pages_of_the_administration(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="bob", to="/admin/")
    page.get_by_role("link", name="Groups", exact=True).first.click()
    page.get_by_role("link", name="lhcb_user").click()
    page.get_by_label("Priority").fill("2500")
    expect(page.get_by_role("columnheader", name="With 2500")).to_be_visible()
    page.get_by_label("Reason").fill("More data.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("→ 2500, its share")
    page.goto(f"{live_server.url}/admin/taskqueues/limit/add/")
    page.locator(".field-vo .select2-selection").click()
    page.locator(".select2-results__option", has_text="lhcb").click()
    page.get_by_label("CPU (s) per day").fill("0")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("The limit on the VO lhcb lets no job start. Its jobs have used 0 s").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("was added successfully")
    assert browser.complaints == []


def test_a_manager_sees_why_a_site_takes_no_jobs(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="bob", to="/admin/")
    page.get_by_role("link", name="Throttles", exact=True).first.click()
    row = page.get_by_role("row").filter(has_text="LCG.RAL.uk")
    expect(row).to_contain_text("which leaves no room: MaxSubmittingJobs is 5.")
    row.get_by_role("link", name="LCG.RAL.uk").click()
    expect(page.locator(".field-numbers")).to_contain_text("CurrentSubmittingJobs = 5")
    page.goto(f"{live_server.url}/admin/resources/site/?q=RAL")
    page.get_by_role("link", name="LCG.RAL.uk").click()
    page.get_by_role("link", name="State of the throttle").click()
    assert page.locator(".field-why_closed").inner_text().endswith("which leaves no room: MaxSubmittingJobs is 5.")
    assert browser.complaints == []


def test_a_manager_bans_a_site_for_two_hours_and_allows_it_again(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="bob")
    page.get_by_role("link", name="Sites", exact=True).first.click()
    page.get_by_role("link", name="LCG.CERN.ch").click()
    state = page.locator(".state")
    state.get_by_text("Change").click()
    state.get_by_role("button", name="Ban").click()  # the browser asks for the reason
    page.keyboard.type("storage is moved")
    state.get_by_label("For").select_option("2 h")
    state.get_by_role("button", name="Ban").click()
    expect(page.get_by_role("status")).to_contain_text("Site LCG.CERN.ch is banned until")
    expect(state).to_contain_text("banned")
    expect(state).to_contain_text("storage is moved until in")
    expect(page.get_by_role("region", name="Last changes")).to_contain_text("state: active → banned")
    state.get_by_text("Change", exact=False).first.click()
    state.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("status")).to_have_text("Site LCG.CERN.ch is active.")
    expect(state).to_contain_text("active")
    assert browser.complaints == []


def test_a_manager_declares_a_downtime_and_withdraws_it(live_server: LiveServer, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="bob")
    page.goto(f"{live_server.url}/sites/LCG.CERN.ch/")
    expect(page.get_by_text("None runs or is planned.")).to_be_visible()
    page.get_by_text("Declare a downtime").click()
    form = page.locator("#declare-downtime")
    form.get_by_label("Reason, which users see").fill("new disks")
    form.get_by_label("Place").select_option(label="the whole site")
    form.get_by_label("Begin (UTC)").fill("2035-12-31T08:00")
    form.get_by_label("End (UTC)").fill("2035-12-31T07:00")
    form.get_by_role("button", name="Declare").click()
    expect(form).to_contain_text("The end must be after the begin")
    form.get_by_label("End (UTC)").fill("2035-12-31T16:00")
    form.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("status")).to_contain_text("is declared; running there: 0 jobs.")
    row = page.get_by_role("region", name="Downtimes")
    expect(row).to_contain_text("site LCG.CERN.ch")
    expect(row).to_contain_text("new disks")
    row.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("None runs or is planned.")).to_be_visible()
    expect(page.get_by_role("region", name="Last changes")).to_contain_text("downtime of site LCG.CERN.ch")
    assert [complaint for complaint in browser.complaints if "400" not in complaint] == []


def test_the_documentation_of_the_api_loads(live_server: LiveServer, browser: Browser) -> None:
    browser.page.goto(f"{live_server.url}/api/v1/docs/")
    browser.page.get_by_text("/api/v1/jobs/", exact=True).first.wait_for()
    assert browser.complaints == []


def test_the_log_of_a_pilot_grows_on_the_open_page(live_server: LiveServer, pilot_token: str, browser: Browser) -> None:
    def say(what: str, body: dict[str, object]) -> None:
        headers = {"Authorization": f"Bearer {pilot_token}", "Content-Type": "application/json"}
        address = f"{live_server.url}/api/v1/pilots/{what}/"
        with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers)):
            pass

    page = browser.page
    page.clock.install()
    log_in(browser, live_server, username="bob")
    page.get_by_role("link", name="Pilots", exact=True).click()
    page.get_by_role("table").get_by_role("link").click()
    log = page.get_by_role("log")
    assert log.inner_text().strip() == ""
    say("log", {"offset": 0, "text": "one <b>bold</b>\n"})
    page.clock.run_for(20_000)
    log.get_by_text("one <b>bold</b>").wait_for()
    say("report", {"leaving": "no job for me"})
    page.clock.run_for(20_000)
    page.get_by_role("term").filter(has_text="Ended").wait_for()
    expect(page.locator(".state")).to_contain_text("no job for me")
    assert browser.complaints == []


@pytest.fixture
def talkative(people: None) -> Pilot:
    """Return a pilot with a long log, and with HTML in its log and names."""
    pilot = make_pilot(vo=VO.objects.get())
    log = "".join(f"line {number} <b>bold</b>\n" for number in range(1000))
    logs.append(LogPart(offset=0, text=log), pilot_id=pilot.pk, now=NOW)
    checks = [{"name": "c" * 64, "ok": False, "detail": "d" * 1000}]
    Pilot.objects.filter(pk=pilot.pk).update(
        host_name=f"<i>{'h' * 240}</i>",
        stamp="s" * 128,
        status_reason="r" * 255,
        node={"n" * 99: "v", "checks": checks},
    )
    return pilot


def test_long_names_and_logs_fit_a_phone_and_logs_show_the_newest_lines(
    live_server: LiveServer, talkative: Pilot, browser: Browser
) -> None:
    page = browser.page
    log_in(browser, live_server, username="bob")
    for address, log in ((f"/pilots/{talkative.pk}/", ".log"), (f"/admin/pilots/pilot/{talkative.pk}/", ".pilot-log")):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{live_server.url}{address}")
        stands_at_its_end = """
            of => { const box = of.getBoundingClientRect(), text = of.querySelector("pre").getBoundingClientRect();
                    return text.height > box.height && text.bottom <= box.bottom + 1 }
        """
        assert page.locator(log).evaluate(stands_at_its_end)
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.goto(f"{live_server.url}/pilots/")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.complaints == []
