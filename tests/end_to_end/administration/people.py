"""One who answers for a VO or a site, in a browser and by `wms`: the same decisions by both."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import ConsoleMessage, Download, Page, expect

from tests.end_to_end.pilots.grid import System
from tests.end_to_end.portal.test_every_page import RUN_AXE, RUN_AXE_ON_COLOURS, show_in, violations_in
from tests.pace import within
from tests.screenshots.pages import View

WMS = Path(__file__).resolve().parents[3] / "wms" / "client" / "wms"
WIDTH = 1280
_SUSPENDED = r"(?i)payloads killed: (\d+); jobs that wait, and are not matched: (\d+)\."
#: What a browser says of an answer 404 or 400, which the tests ask for.
_REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 40[0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A change that would stop jobs, or do nothing, in silence.

    Args:
        says: part of what is said before anything is saved.
        form: path of the form in the administration, and its fields by their labels.
        command: words after ``wms admin``; empty: no command changes it one by one.
        file: as a configuration file.
    """

    says: str
    form: tuple[str, Mapping[str, str]]
    command: Sequence[str]
    file: str

    def at(self, **ids: int) -> "Stop":
        """Return it with the ids in the path of the form."""
        path, fields = self.form
        return replace(self, form=(path.format_map(ids), fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who ran where."""

    job: int
    owner: str
    host: str


class Person(Protocol):
    """What a manager or an administrator of a site does; answers are what the server says."""

    def ban(self, site: str, *, reason: str) -> str:
        """Ban a site for two hours."""

    def drain(self, site: str, *, reason: str) -> str:
        """Drain a site."""

    def allow(self, site: str) -> str:
        """End the ban or the drain of a site."""

    def is_kept_out_of(self, site: str, job: int) -> bool:
        """Return whether a site, a job, the people and the administration are as if they were not there."""

    def why(self, job: int) -> str:
        """Return the first sentence on why a job waits."""

    def hold(self, site: str, *, most_matches: int) -> str:
        """Set the throttle of a site to a most of matches."""

    def gauge(self, site: str) -> tuple[int, int] | None:
        """Return the matches since the measurement and the most of them; None: not measured yet."""

    def let_go(self, site: str) -> str:
        """End the throttle of a site."""

    def would_suspend(self, user: str) -> tuple[int, int]:
        """Return how many payloads the suspension of a user would kill, and how many jobs would wait on."""

    def suspend(self, user: str, *, reason: str) -> tuple[int, int]:
        """Suspend a user; return how many payloads are killed, and how many jobs wait on."""

    def restore(self, user: str) -> str:
        """End the suspension of a user."""

    def leases_on(self, host: str) -> Sequence[Lease]:
        """Return who ran on a host since the day before yesterday."""

    def try_to(self, stop: Stop) -> Sequence[str]:
        """Make a change that would stop jobs by each door; return what is said instead of it."""

    def close(self, vo: str) -> None:
        """Add the limit that lets no job of a VO start, and confirm it."""

    def held_back(self) -> str:
        """Return what holds the jobs of her VO back."""

    def reopen(self, vo: str) -> None:
        """Delete the limits on a VO."""

    def would_share(self, group: str, share: int) -> Mapping[str, float]:
        """Return the parts in percent that the groups would get with another share of one."""

    def share_out(self, group: str, share: int, *, reason: str) -> str:
        """Give a group another share."""

    def delivered(self, group: str) -> float:
        """Return the part of a group, in percent, in what its VO used in the last hour."""


@dataclass(kw_only=True)
class InBrowser:
    """A person in Chromium; each page on the way is looked at by axe, in both themes."""

    page: Page
    system: System
    name: str
    #: Serious findings of axe and complaints of the console.
    wrong: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def log_in(self) -> None:
        """Log in, and listen to the console from now on."""
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self._open("/")
        self.page.get_by_label("Username").fill(self.name)
        self.page.get_by_label("Password").fill(f"{self.name}-of-the-tests")
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(self._url("/"))

    def ban(self, site: str, *, reason: str) -> str:
        self._open_site(site)
        return self._decide("Ban", reason=reason, duration="2 h")

    def drain(self, site: str, *, reason: str) -> str:
        self._open("/")
        self.page.get_by_role("region", name="Sites that I administer").get_by_role("link", name=site).click()
        return self._decide("Drain", reason=reason)

    def allow(self, site: str) -> str:
        self._open_site(site)
        return self._decide("Allow")

    def is_kept_out_of(self, site: str, job: int) -> bool:
        self._open("/sites/")
        is_listed = self.page.get_by_role("link", name=site).count() > 0
        addresses = [f"/sites/{site}/", f"/jobs/{job}/", "/people/", "/leases/", "/changes/", "/configuration/"]
        statuses = [self._status_of(address) for address in addresses]
        self._open("/admin/resources/site/")
        is_in = self.page.get_by_role("heading", name="Select site").count() > 0
        return not is_listed and not is_in and {*statuses} <= {403, 404} and statuses[:2] == [404, 404]

    def why(self, job: int) -> str:
        self._open(f"/jobs/{job}/?tab=why")
        self._look()
        return self.page.locator("main").inner_text()

    def hold(self, site: str, *, most_matches: int) -> str:
        self._open_site(site)
        self.page.get_by_text("Set policy, maxima and expression").click()
        self.page.get_by_label("Policy").select_option("matches")
        self.page.get_by_label("Most matches").fill(str(most_matches))
        return self._press("Set the throttle")

    def gauge(self, site: str) -> tuple[int, int] | None:
        self._open(f"/sites/{site}/")
        meter = self.page.get_by_role("meter", name="Matches since the measurement")
        if not meter.count():
            return None
        self._look(as_="a gauge")
        return int(meter.get_attribute("value") or 0), int(meter.get_attribute("max") or 0)

    def let_go(self, site: str) -> str:
        self._open_site(site)
        self.page.get_by_text("Set policy, maxima and expression").click()
        self.page.get_by_label("Policy").select_option("")
        return self._press("Set the throttle")

    def would_suspend(self, user: str) -> tuple[int, int]:
        self._open_person(user)
        return _numbers(r"(\d+) at pilots .* killed\. (\d+) wait", self.page.locator("main").inner_text())

    def suspend(self, user: str, *, reason: str) -> tuple[int, int]:
        self._open_person(user)
        self.page.get_by_label("Reason").fill(reason)
        return _numbers(_SUSPENDED, self._press("Suspend"))

    def restore(self, user: str) -> str:
        self._open_person(user)
        self.page.get_by_label("Reason").fill("it was a mistake")
        return self._press("End the suspension")

    def leases_on(self, host: str) -> Sequence[Lease]:
        self._open("/people/")
        self.page.get_by_role("link", name="Leases").click()
        self.page.get_by_label("Host").fill(host)
        self.page.get_by_label("From (UTC)").fill("2d")
        self.page.get_by_role("button", name="Show").click()
        self._look()
        rows = self.page.get_by_role("region", name="Leases").locator("tbody tr").all()
        cells = [row.locator("td").all_inner_texts() for row in rows]
        found = [Lease(job=int(job), owner=owner, host=at) for job, owner, _, _, at, *_ in cells]
        with self.page.expect_download() as download:
            self.page.get_by_role("link", name="Table as CSV").click()
        assert [
            Lease(job=int(row["job"]), owner=row["owner"], host=row["host"]) for row in _csv(download.value)
        ] == found
        return found

    def try_to(self, stop: Stop) -> Sequence[str]:
        path, fields = stop.form
        self._open(path)
        for label, value in fields.items():
            self._fill(label, value)
        self.page.get_by_role("button", name="Save", exact=True).click()
        expect(self.page.locator(".errornote")).to_be_visible()
        self._look(as_=f"refused {path}")
        return [self.page.locator("#content").inner_text()]

    def close(self, vo: str) -> None:
        self._open("/admin/taskqueues/limit/add/")
        self._fill("VO", vo)
        self._fill("Running", "0")
        self.page.get_by_role("button", name="Save", exact=True).click()
        self.page.get_by_label(f"The limit on the VO {vo} lets no job start").check()
        self.page.get_by_role("button", name="Save", exact=True).click()
        expect(self.page.locator(".messagelist")).to_contain_text("was added successfully")

    def held_back(self) -> str:
        self._open("/")
        self._look(as_="home of who is held back")
        return self.page.locator("main").inner_text()

    def reopen(self, vo: str) -> None:
        self._open("/admin/taskqueues/limit/")
        self.page.get_by_role("row").filter(has_text=vo).get_by_role("link").first.click()
        self.page.get_by_role("link", name="Delete").click()
        self._look()
        self.page.get_by_role("button", name="Yes, I’m sure").click()
        expect(self.page.locator(".messagelist")).to_contain_text("was deleted successfully")

    def would_share(self, group: str, share: int) -> Mapping[str, float]:
        self._open_group(group)
        self.page.get_by_label("Priority").press_sequentially(str(share))
        expect(self.page.get_by_role("columnheader", name=f"With {share}", exact=True)).to_be_visible()
        self._look()
        rows = self.page.locator("#shares tbody tr").all()
        return {row.locator("th").inner_text(): _percent(row.locator("td").last.inner_text()) for row in rows}

    def share_out(self, group: str, share: int, *, reason: str) -> str:
        self._open_group(group)
        self.page.get_by_label("Priority").fill(str(share))
        self.page.get_by_role("button", name="Save", exact=True).click()
        expect(self.page.locator(".errornote")).to_be_visible()  # without a reason
        self.page.get_by_label("Reason").fill(reason)
        self.page.get_by_role("button", name="Save", exact=True).click()
        said = self.page.locator(".messagelist")
        expect(said.get_by_role("link", name="shares", exact=False)).to_be_visible()
        return said.inner_text()

    def delivered(self, group: str) -> float:
        self._open("/")
        self.page.get_by_role("navigation").get_by_role("link", name="Shares", exact=True).first.click()
        self._look()
        table = self.page.get_by_role("region", name="All groups of lhcb")
        heads = table.locator("thead th").all_inner_texts()
        cells = table.get_by_role("row").filter(has_text=group).locator("td").all_inner_texts()
        return _percent(cells[heads.index("Delivered, hour")])

    # ---- parts of it ----

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.system.port}{path}"

    def _open(self, path: str) -> None:
        self.page.goto(self._url(path))

    def _status_of(self, path: str) -> int:
        answer = self.page.goto(self._url(path))
        assert answer is not None
        return answer.status

    def _open_site(self, site: str) -> None:
        self._open("/")
        self.page.get_by_role("link", name="Sites", exact=True).first.click()
        self.page.get_by_role("link", name=site, exact=True).click()
        self._look(as_=site)

    def _open_person(self, user: str) -> None:
        self._open("/")
        self.page.get_by_role("link", name="People", exact=True).first.click()
        self.page.get_by_role("link", name=user, exact=True).click()
        self._look(as_=user)

    def _open_group(self, group: str) -> None:
        self._open("/admin/accounts/group/")
        self.page.get_by_role("link", name=group, exact=True).click()
        self.page.get_by_label("Priority").fill("")

    def _decide(self, button: str, *, reason: str = "", duration: str = "") -> str:
        state = self.page.locator(".state").first
        state.get_by_text("Change").first.click()
        state.get_by_label("Reason").fill(reason)
        if duration:
            state.get_by_label("For").select_option(duration)
        state.get_by_role("button", name=button).click()
        return self._said()

    def _press(self, button: str) -> str:
        self.page.get_by_role("button", name=button, exact=True).click()
        return self._said()

    def _said(self) -> str:
        """Return the message above the page, and what the page shows as its state."""
        self.page.get_by_role("status").first.wait_for()
        self._look(as_="an answer")
        return self.page.locator("main").inner_text()

    def _fill(self, label: str, value: str) -> None:
        """Fill a field of the administration; in a field that searches, choose the first row that is found."""
        box = self.page.get_by_label(f"{label}:", exact=True)
        kind = box.evaluate("field => field.classList.contains('admin-autocomplete') ? 'search' : field.localName")
        if kind == "search":
            box.locator("xpath=..").locator(".select2-selection").click()
            self.page.locator(".select2-search__field").last.fill(value)
            self.page.locator(".select2-results__option", has_text=value).first.click()
        elif kind == "select":
            box.select_option(value)
        else:
            box.fill(value)

    def _look(self, *, as_: str = "") -> None:
        """Let axe look at the page in both themes, once for pages of one kind."""
        kind = as_ or re.sub(r"\d+", "N", self.page.url)
        if kind in self._seen:
            return
        self._seen.add(kind)
        self.page.evaluate(AXE_SCRIPT)
        for theme, run_axe in (("light", RUN_AXE), ("dark", RUN_AXE_ON_COLOURS)):
            show_in(self.page, View(width=WIDTH, theme=theme))
            self.wrong += [f"{self.page.url}, {theme}: {each}" for each in violations_in(self.page, run_axe)]

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not _REFUSED.match(message.text):
            self.wrong.append(message.text)


@dataclass(kw_only=True)
class WithWms:
    """A person at a shell, with the client of this project as a process."""

    system: System
    name: str
    home: Path

    def log_in(self) -> None:
        """Log in to administer."""
        server = f"http://127.0.0.1:{self.system.port}"
        self.run("login", "--server", server, "--user", self.name, "--scope", "administer", typed=self._password)

    def run(self, *words: str, typed: str = "") -> str:
        """Run the command, which must succeed; return what it prints."""
        ran = self._ran(*words, typed=typed)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def refused(self, *words: str) -> str:
        """Run the command, which must be refused; return what it says."""
        ran = self._ran(*words)
        assert ran.returncode == 1, ran.stdout + ran.stderr
        return ran.stderr

    def ban(self, site: str, *, reason: str) -> str:
        banned = self.run("admin", "ban", site, "--because", reason, "--for", "2h")
        return banned + self.run("sites")

    def drain(self, site: str, *, reason: str) -> str:
        assert site in self.run("sites")
        return self.run("admin", "drain", site, "--because", reason) + self.run("sites")

    def allow(self, site: str) -> str:
        return self.run("admin", "allow", site)

    def is_kept_out_of(self, site: str, job: int) -> bool:
        refusals = {
            self.refused("admin", "drain", site, "--because", "curiosity"),
            self.refused("admin", "allow", site),
            self.refused("admin", "throttle", site),
            self.refused("admin", "site-failures", site),
            self.refused("admin", "site-token", site),
            self.refused("admin", "drain", "LCG.Nowhere.org", "--because", "curiosity"),
        }
        for words in (("leases",), ("history",), ("limit",), ("suspend", "alice"), ("member", "lhcb_user")):
            self.refused("admin", *words)
        self.refused("show", str(job))
        return len(refusals) == 1 and site not in self.run("sites") + self.run("admin", "ce")

    def why(self, job: int) -> str:
        return self.run("why", str(job))

    def hold(self, site: str, *, most_matches: int) -> str:
        return self.run("admin", "throttle", site, "--policy", "matches", "--max-matches", str(most_matches))

    def gauge(self, site: str) -> tuple[int, int] | None:
        now = self._json("admin", "throttle", site)["now"]
        return None if now["room_left"] is None else (now["matched"], now["matched"] + now["room_left"])

    def let_go(self, site: str) -> str:
        return self.run("admin", "throttle", site, "--none")

    def would_suspend(self, user: str) -> tuple[int, int]:
        return _numbers(_SUSPENDED, self.run("admin", "suspend", user, "--dry-run"))

    def suspend(self, user: str, *, reason: str) -> tuple[int, int]:
        return _numbers(_SUSPENDED, self.run("admin", "suspend", user, "--because", reason))

    def restore(self, user: str) -> str:
        return self.run("admin", "restore", user)

    def leases_on(self, host: str) -> Sequence[Lease]:
        rows = self._json("admin", "leases", "--host", host, "--since", "2d")
        return [Lease(job=row["job"], owner=row["owner"], host=row["host"]) for row in rows]

    def try_to(self, stop: Stop) -> Sequence[str]:
        file = self.home / "change.yaml"
        file.write_text(stop.file)
        said = [self.refused("admin", "configuration", "apply", str(file))]
        return [*said, self.refused("admin", *stop.command)] if stop.command else said

    def close(self, vo: str) -> None:
        assert "lets no job start" in self.refused("admin", "limit", "--vo", vo, "--running", "0")
        self.run("admin", "limit", "--vo", vo, "--running", "0", "--confirm")

    def held_back(self) -> str:
        return self.run("admin", "limit")

    def reopen(self, vo: str) -> None:
        for limit in self._json("admin", "limit"):
            self.run("admin", "limit", str(limit["id"]), "--delete")

    def would_share(self, group: str, share: int) -> Mapping[str, float]:
        said = self.run("admin", "priority", group, str(share), "--because", "a campaign", "--dry-run")
        assert said.startswith("Nothing was changed.")
        rows = [line.split("\t") for line in said.splitlines()[1:]]
        return {name: _percent(part) for name, _, part, *_ in rows}

    def share_out(self, group: str, share: int, *, reason: str) -> str:
        assert self._ran("admin", "priority", group, str(share)).returncode == 2  # without a reason
        return self.run("admin", "priority", group, str(share), "--because", reason) + self.run(
            "admin", "history", "--target", f"group {group}", "--limit", "1"
        )

    def delivered(self, group: str) -> float:
        (shares,) = self._json("shares", group)
        fraction = shares["delivered"]["hour"]["lease_time"]["fraction"]
        return 100.0 * (fraction or 0.0)

    # ---- parts of it ----

    @property
    def _password(self) -> str:
        return f"{self.name}-of-the-tests\n"

    def _json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def _ran(self, *words: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb", "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-S", str(WMS), *words],
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=within(60),
            check=False,
        )


def _numbers(pattern: str, text: str) -> tuple[int, int]:
    found = re.search(pattern, text)
    assert found, text
    return int(found[1]), int(found[2])


def _percent(text: str) -> float:
    """Return the number of a text such as "22.2 %"; one of nothing used is 0."""
    number = re.match(r"[\d.]+", text)
    return float(number[0]) if number else 0.0


def _csv(download: Download) -> Sequence[Mapping[str, str]]:
    with download.path().open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
