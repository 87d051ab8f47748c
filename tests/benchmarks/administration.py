"""``administration``: its pages, orders, filters, searches and actions, beside 1,000,000 jobs."""

import html
import http.client
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from statistics import median
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.urls import reverse

from pilots.models import CEHealth
from resources.models import ComputingElement
from taskqueues.models import Limit
from tests.benchmarks.http import PROCESSES
from tests.benchmarks.machine import Pace
from tests.benchmarks.measuring import NotMeasurableError, Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.portal import cookie_of
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.portal_archive import load_portal_archive
from wms.accounts.models import VO, Group, Membership, User

JOBS = 1_000_000
#: Of 1,000,000 jobs; of fewer, as many fewer.
EVENTS = 300_000
USERS = 2_000
#: Links of a list that are opened for each of its query parameters: some of the values of a filter, some pages, …
LINKS = 3
#: Rows that an action is applied to.
AT_ONCE = 20
#: Addresses in the facts.
SLOWEST = 12
REACH_MS = 300.0
#: What takes longer is not waited for, and counts as so long.
_WITHIN_S: Final = 30
#: Any text of the right length, sent as the cookie and as the header of the same request.
_CSRF: Final = "b" * 32
_LINK: Final = re.compile(r'href="(\?[^"]+)"')
#: A search that finds nothing, and has to look everywhere before it says so.
_NOWHERE: Final = "nowhere"
_EVENTS: Final = """
    INSERT INTO accounts_securityevent (at, kind, actor_name, address, target, row_type, row_id, vo_ids, facts, times)
    SELECT now() - number * interval '100 s',
           (ARRAY['login_failed', 'login', 'token_issued', 'refused', 'configuration_changed'])[1 + number %% 5],
           'user' || lpad((number %% 1000)::text, 3, '0'), '10.' || number %% 250 || '.0.' || number %% 199,
           CASE number %% 5 WHEN 4 THEN 'group group' || lpad((number %% 40)::text, 2, '0') ELSE 'token ' || number END,
           CASE number %% 5 WHEN 4 THEN 'accounts.group' ELSE '' END,
           CASE number %% 5 WHEN 4 THEN (%(groups)s::bigint[])[1 + number %% 40]::text ELSE '' END,
           CASE number %% 5 WHEN 4 THEN ARRAY[(%(vos)s::bigint[])[1 + number %% 4]] END,
           CASE number %% 5 WHEN 4 THEN '{"what": "changed", "changes": {"priority": ["1", "2"]}}'::jsonb
                ELSE '{"path": "/api/v1/jobs/"}' END, 1
      FROM generate_series(%(events)s, 1, -1) AS number
"""
_BLACK_HOLES: Final = """
    INSERT INTO pilots_blackhole (site_id, host_name, found_at, until, fetched, failed, reason, lifted_at, lifted_by)
    SELECT id, 'node' || number, now() - interval '1 d', now() + interval '1 d', 20, 19, 'fails fast', NULL, ''
      FROM resources_site, generate_series(1, 5) AS number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """A page that is opened, and what kind of page it is."""

    kind: str
    address: str


def run(ready: Surroundings, options: Options) -> Report:
    """Load the archive, start the server, and open the pages one after another, then use the actions."""
    jobs = options.jobs or JOBS
    archive = load_portal_archive(jobs=jobs, seed=options.seed)
    readers = _load_beside(events=max(100, EVENTS * jobs // JOBS), users=max(100, USERS * jobs // JOBS))
    report = Report(benchmark="administration", sizes={"jobs": archive.jobs, "users": User.objects.count()})
    pace = Pace()
    times_s: dict[str, list[float]] = defaultdict(list)
    of_address: dict[str, list[float]] = defaultdict(list)
    with ready.web(processes=options.processes or PROCESSES) as web:
        for what, user in readers.items():
            desk = _Desk(what, user, port=web.port)
            for page in desk.pages():
                pace.sample()
                taken = [desk.open(page.address)[1] for _ in range(1 + options.repeat)][1:]
                times_s[page.kind] += taken
                of_address[f"{what}: {page.address}"] += taken
        for what, user in readers.items():
            for address, taken_s in _Desk(what, user, port=web.port).actions():
                pace.sample()
                times_s["action"].append(taken_s)
                of_address[f"{what}: {address}"].append(taken_s)
    for kind, taken in times_s.items():
        report.add(kind, taken)
    report.add("all", [taken_s for each in times_s.values() for taken_s in each])
    medians = {address: 1000 * median(each) for address, each in of_address.items()}
    report.facts[f"addresses, of which above {REACH_MS:g} ms"] = (
        f"{len(medians)}, {sum(each > REACH_MS for each in medians.values())}"
    )
    for address in sorted(medians, key=lambda each: -medians[each])[:SLOWEST]:
        report.facts[f"among the slowest: {address}, ms"] = medians[address]
    report.facts["slowness of the machine meanwhile"] = pace.slowness()
    return report


def _load_beside(*, events: int, users: int) -> Mapping[str, User]:
    """Make further users, events, limits and records of CEs; return an operator and a manager, who are staff."""
    groups, vos = list(Group.objects.order_by("pk")), list(VO.objects.order_by("pk"))
    people = User.objects.bulk_create(
        User(username=f"member{number:05}", email=f"m{number}@example.org", password="!") for number in range(users)
    )
    Membership.objects.bulk_create(
        Membership(user=user, group=groups[number % len(groups)]) for number, user in enumerate(people)
    )
    Limit.objects.bulk_create(Limit(vo=group.vo, group=group, running=100_000) for group in groups)
    CEHealth.objects.bulk_create(
        CEHealth(ce=ce, failures=1, trouble="no answer") for ce in ComputingElement.objects.all()
    )
    with connection.cursor() as cursor:
        names: dict[str, Any] = {
            "groups": [each.pk for each in groups],
            "vos": [each.pk for each in vos],
            "events": events,
        }
        cursor.execute(_EVENTS, names)
        cursor.execute(_BLACK_HOLES)
        cursor.execute("VACUUM (ANALYZE)")
    operator = User.objects.create(username="desk", password="!", is_staff=True, operator=True)
    manager = User.objects.create(username="boss", password="!", is_staff=True)
    vos[0].managers.add(manager)
    return {"operator": operator, "manager": manager}


class _Desk:
    """A user of the administration, on one connection."""

    def __init__(self, what: str, user: User, *, port: int) -> None:
        self._what = what
        self._opened = http.client.HTTPConnection("127.0.0.1", port, timeout=_WITHIN_S)
        self._headers = {"Cookie": f"{cookie_of(user)}; csrftoken={_CSRF}", "X-CSRFToken": _CSRF}

    def pages(self) -> Iterator[_Address]:
        """Yield the pages that the user sees, as they are linked."""
        yield _Address(kind="index", address=reverse("admin:index"))
        for page in self._lists():
            listed = _address(page, "changelist")
            first = self.open(listed)[0]
            if first is None:
                continue
            yield _Address(kind="list", address=listed)
            yield from _links(listed, first)
            yield from self._searches(page, listed)
            keys = _keys(first)
            for view in ("change", "history", "delete") if keys else ():
                address = _address(page, view, keys[0])
                if self.open(address)[0] is not None:
                    yield _Address(kind=f"page: {view}", address=address)
            if self.open(address := _address(page, "add"))[0] is not None:
                yield _Address(kind="page: add", address=address)
            for name in page.autocomplete_fields:
                label = {"app_label": page.opts.app_label, "model_name": page.opts.model_name, "field_name": name}
                for term in ("", "user1", _NOWHERE):
                    chosen = f"{reverse('admin:autocomplete')}?{urlencode({**label, 'term': term})}"
                    if self.open(chosen)[0] is not None:
                        yield _Address(kind="autocomplete", address=chosen)

    def actions(self) -> Iterator[tuple[str, float]]:
        """Apply each action that a list offers to its first rows, after its confirmation; yield what each step took."""
        for page in self._lists():
            listed = _address(page, "changelist")
            first = self.open(listed)[0]
            names = re.findall(
                r'<option value="(\w+)">', (first or "").partition('name="action"')[2].partition("</select>")[0]
            )
            for name in names:
                keys = _keys(self.open(listed)[0] or "")[: 1 if name.startswith("issue") else AT_ONCE]
                chosen = [("action", name), *((ACTION_CHECKBOX_NAME, key) for key in keys)]
                asked, taken_s = self._post(listed, chosen)
                yield f"{listed} {name}", taken_s
                if name != "delete_selected" and asked and 'name="confirmed"' in asked:
                    sure = [*chosen, ("confirmed", "1"), ("reason", "a benchmark")]
                    yield f"{listed} {name}, confirmed", self._post(listed, sure)[1]

    def open(self, address: str) -> tuple[str | None, float]:
        """Return the page, None for one that the user does not see, and the seconds that it took."""
        return self._ask("GET", address)

    def _post(self, address: str, fields: Sequence[tuple[str, str]]) -> tuple[str | None, float]:
        return self._ask("POST", address, urlencode(fields))

    def _ask(self, method: str, address: str, body: str | None = None) -> tuple[str | None, float]:
        form = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}

        def ask() -> tuple[int, bytes]:
            try:
                self._opened.request(method, address, body, {**self._headers, **form})
                response = self._opened.getresponse()
                return response.status, response.read()
            except TimeoutError:
                self._opened.close()  # the next request opens it again
                return HTTPStatus.OK, b""

        (status, content), taken_s = timed(ask)
        if status in {HTTPStatus.FORBIDDEN, HTTPStatus.FOUND}:
            return None, taken_s
        if status != HTTPStatus.OK:
            raise NotMeasurableError(f"{self._what}: {method} {address} was answered with {status}.")
        return content.decode(), taken_s

    def _lists(self) -> "Iterator[admin.ModelAdmin[Any]]":
        for model, page in sorted(admin.site._registry.items(), key=lambda each: each[0]._meta.label):
            if model.__module__.partition(".")[0] not in {"django", "allauth"}:
                yield page

    def _searches(self, page: "admin.ModelAdmin[Any]", listed: str) -> Iterator[_Address]:
        row = page.model._default_manager.order_by("pk").last()
        if row is None or not (page.search_fields or getattr(page, "searched_exactly", ())):
            return
        for term in dict.fromkeys((str(row.pk), str(row).partition(" ")[0][:20], "user001", _NOWHERE)):
            yield _Address(kind="search", address=f"{listed}?{urlencode({'q': term})}")


def _address(page: "admin.ModelAdmin[Any]", view: str, *key: str) -> str:
    return reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_{view}", args=key)


def _keys(listed: str) -> list[str]:
    """Return the keys of the rows of a list: of its boxes to tick, or of its links."""
    boxes = re.findall(rf'name="{ACTION_CHECKBOX_NAME}" value="([^"]+)"', listed)
    return boxes or re.findall(r'<th class="field-[^>]*><a href="[^"]*/([^"/]+)/change/', listed)


def _links(listed: str, page: str) -> Iterator[_Address]:
    """Yield a few links of each kind of a list: orders, pages, and choices of filters."""
    seen: dict[str, list[str]] = defaultdict(list)
    for link in dict.fromkeys(html.unescape(each) for each in _LINK.findall(page)):
        chosen = parse_qsl(link[1:])
        if len(chosen) == 1 and chosen[0][0] != "_facets":
            seen[chosen[0][0]].append(link)
    for name, links in seen.items():
        kind = {"o": "order", "p": "further page"}.get(name, "filter")
        few = links if name == "o" else links[:: max(1, len(links) // LINKS)][:LINKS]
        for link in few:
            yield _Address(kind=kind, address=f"{listed}{link}")
