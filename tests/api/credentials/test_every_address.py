"""Every address of the system × every method × every credential that somebody could have stolen.

What a credential opens is said in OPENED; everything else answers 401, 403 or 404 and changes nothing. An address that
is new is found by itself, and refused until it is said there who may open it.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.conf import settings as configured
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from tests.api.credentials.addresses import METHODS, Address, every_address
from tests.api.credentials.world import CREDENTIALS, HERS, PASSWORD, STORAGE_CREDENTIAL, World, make_world
from wms.accounts.models import SecurityEvent

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

REFUSED: Final = frozenset({401, 403, 404})
#: Of files that are sent, the contract wants a form.
FORMS: Final = frozenset({"match-sandboxes", "sandboxes"})
#: With whatever credential, or none: what they give is no secret, or is given for a password.
OPEN_TO_ALL: Final = frozenset({"GET pilot-agent", "GET pilot-script", "GET gateway-advertiser", "POST auth-token"})
#: Open to all too, but for a token that is none: that is told wherever tokens are looked at.
DOCUMENTATION: Final = frozenset({"schema", "docs"})
#: Pages that are open to who is not logged in, and those that send there.
OPEN_PAGES: Final = frozenset(
    {"healthz", "readyz", "portal:home", "portal:log-in", "account_login", "portal:log-out",
     "portal:password-link", "portal:password-by-link", "/admin/login/", "admin:login",
     "admin:logout"}
)  # fmt: skip

OF_USERS: Final = frozenset(
    {"GET auth-me", "POST auth-revoke", "GET auth-tokens", "GET groups",
     "GET jobs", "POST jobs", "GET jobs-summary", "POST jobs-bulk",
     "POST sandboxes", "GET replicas", "GET sites", "GET task-queues", "GET submit-pools",
     "GET submit-pools-eligible"}
)  # fmt: skip
OF_THE_JOB: Final = frozenset(
    {"GET job", "PATCH job", "GET job-history", "GET job-peek", "GET job-output", "GET job-explain", "POST job-kill",
     "POST job-reschedule", "POST job-delete", "POST job-hold", "POST job-release"}
)  # fmt: skip
OF_MANAGERS: Final = frozenset(
    {"POST match-preview", "POST replicas", "POST replicas-remove", "GET group-shares", "GET pilot-log-read",
     "GET pilot-summary"}
)  # fmt: skip
REPORTS: Final = frozenset({"POST match-status", "POST match-heartbeat", "POST match-finish"})
FILES: Final = frozenset({"POST match-sandboxes", "GET match-sandbox", "POST match-replicas"})
OF_PILOTS: Final = frozenset(
    {"GET pilot-config", "POST pilot-report", "POST pilot-log", "POST matches", "GET submit-pools"}
)
REGISTRATION: Final = frozenset({"POST pilot-register"})

#: A token may end itself.
OF_READERS: Final = frozenset({"POST auth-revoke"})


def reading(opened: frozenset[str]) -> frozenset[str]:
    return frozenset(asked for asked in opened if asked.startswith("GET ")) | OF_READERS


#: What each credential opens beside OPEN_TO_ALL; one that is missing opens nothing else.
OPENED: Final[Mapping[str, frozenset[str]]] = {
    "owner": OF_USERS | OF_THE_JOB | {"GET group-shares", "DELETE auth-token-revoke"},
    "owner who may read": reading(OF_USERS | OF_THE_JOB | {"GET group-shares"}),
    "owner who may submit": OF_USERS | OF_THE_JOB | {"GET group-shares"},
    "manager": OF_USERS | OF_THE_JOB | OF_MANAGERS,
    "stranger": OF_USERS,
    "member who shares nothing": OF_USERS | {"GET group-shares"},
    "pilot": OF_PILOTS | REPORTS,
    "other pilot": OF_PILOTS,
    # What it wrote in its last moments may arrive after its last word.
    "ended pilot": frozenset({"POST pilot-log"}),
    "job": REPORTS | FILES,
    # For some seconds, until its leases are ended too: what its payload has done need not be done again.
    "job of an ended pilot": REPORTS | FILES,
    "secret": REGISTRATION,
    "registering site": REGISTRATION,
    "advertising site": frozenset({"POST site-advertisements"}),
}
#: To whom the job of Alice may be shown, and by whom it may be changed.
HER_OWN: Final = frozenset(
    {"owner", "owner who may read", "owner who may submit", "manager", "pilot", "job", "job of an ended pilot"}
)
#: Refusals of another kind: a secret that was used is a conflict, and a VO that one may not see is an unknown name.
OTHERWISE: Final[Mapping[str, Mapping[str, int]]] = {
    "used secret": {"POST pilot-register": 409},
    # 409 tells the pilot to stop its payload; by 404 it would not know.
    "job of a lease that is over": dict.fromkeys((*REPORTS, *FILES, "HEAD match-sandbox"), 409),
    "stranger": {"POST replicas": 400, "POST replicas-remove": 400},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """How requests are sent: with a credential, in its place or in another."""

    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def ask(self, method: str, address: Address, world: World) -> "Answer":
        client = Client(raise_request_exception=False, headers=dict(self.headers))
        client.cookies.load(dict(self.cookies))
        url, body = address.url(world.arguments()), world.body(address.name)
        form: dict[str, Any] = {} if address.name in FORMS else {"content_type": "application/json"}
        send = getattr(client, method.lower())
        wanted = method == "POST" or form
        answer: Answer = (
            send(url, self.query)
            if method in {"GET", "HEAD"}
            else send(url, body if wanted else None, **form, query_params=self.query)
        )
        return answer


@cache
def addresses() -> Sequence[Address]:
    return tuple(every_address())


@pytest.fixture
def world(db: None, settings: Settings, tmp_path: Path) -> World:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    return make_world()


def everything() -> Mapping[str, str]:
    """Return a checksum of each table, but of the security log, which is what a refusal does write."""
    tables = sorted({*connection.introspection.table_names()} - {SecurityEvent._meta.db_table})
    sums = " UNION ALL ".join(
        f"SELECT '{table}', coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM {table} t"
        for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(sums)
        return dict(cursor.fetchall())


#: Of each kind that opens anything, the right one.
GOOD: Final = ("owner", "manager", "pilot", "job", "secret", "registering site", "advertising site")


def opens(caller: Caller, method: str, address: Address) -> bool:
    asked = f"{'GET' if method == 'HEAD' else method} {address.name}"
    return asked in OPEN_TO_ALL or asked in OPENED.get(caller.kind, frozenset())


def refused_by(caller: Caller, method: str, address: Address) -> frozenset[int]:
    """Return how a request that is not allowed may be answered."""
    if not address.is_api:
        return frozenset({302})  # to the page where people log in
    if method not in address.answers:
        return REFUSED | {405}
    otherwise = OTHERWISE.get(caller.kind, {}).get(f"{method} {address.name}")
    return REFUSED if otherwise is None else frozenset({otherwise})


def answered() -> Iterator[tuple[str, Address]]:
    """Yield what views below /api/ have code for."""
    for address in addresses():
        for method in address.methods if address.is_api else ():
            if method in address.answers and (method, address.name) != ("HEAD", "schema"):  # as slow as its GET
                yield method, address


def unanswered() -> Iterator[tuple[str, Address]]:
    """Yield the other methods there, and all pages."""
    for address in addresses():
        for method in address.methods:
            if not address.is_api or method not in address.answers:
                yield method, address


def assert_tells_nothing(answer: "Answer", credentials: Sequence[str], caller: Caller) -> None:
    told = b"".join(answer) if answer.streaming else answer.content
    told += str(answer.headers).encode()
    for secret in (*credentials, PASSWORD, STORAGE_CREDENTIAL):
        assert secret.encode() not in told
    if caller.kind not in HER_OWN:
        assert HERS.encode() not in told


def ask(caller: Caller, asked: Iterable[tuple[str, Address]], world: World, credentials: Sequence[str] = ()) -> None:
    """Send the requests; what is opened is undone, everything else must change nothing."""
    before, wrong = everything(), []
    for method, address in asked:
        savepoint = transaction.savepoint()
        answer = caller.ask(method, address, world)
        status, opened = answer.status_code, opens(caller, method, address)
        if opened:
            transaction.savepoint_rollback(savepoint)
            is_wrong = status >= 500 or status in REFUSED
        elif address.name in DOCUMENTATION and method in address.answers:
            is_wrong = status not in {200, 401}
        elif address.name in OPEN_PAGES:
            is_wrong = status >= 500 and address.name != "readyz"
        else:
            is_wrong = status not in refused_by(caller, method, address)
            is_wrong |= status == 302 and "/login/" not in answer.headers["Location"]
        wrong += [(method, address.name, status)] if is_wrong else []
        assert_tells_nothing(answer, credentials, caller)
    assert not wrong, sorted(map(str, wrong))
    assert everything() == before


def assert_logs_tell_nothing(records: Sequence[logging.LogRecord], credentials: Sequence[str]) -> None:
    # NB: the framework's own records carry the request, which no formatter of ours writes.
    told = "\n".join(
        f"{record.getMessage()} { ({name: value for name, value in vars(record).items() if name != 'request'}) }"
        for record in records
    )
    for secret in (*credentials, PASSWORD, STORAGE_CREDENTIAL):
        assert secret not in told


@pytest.mark.parametrize("kind", ["nothing", *CREDENTIALS])
def test_a_credential_opens_what_it_is_for_and_nothing_else(
    world: World, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    token = CREDENTIALS[kind](world) if kind in CREDENTIALS else None
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    credentials = [] if token is None else [token]

    with caplog.at_level(logging.DEBUG):
        ask(Caller(kind=kind, headers=headers), answered(), world, credentials)

    assert_logs_tell_nothing(caplog.records, credentials)
    recorded = str(list(SecurityEvent.objects.values()))
    assert not any(secret in recorded for secret in (*credentials, PASSWORD, STORAGE_CREDENTIAL))


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_token_opens_no_page_and_no_method_that_is_not_there(world: World, kind: str) -> None:
    token = CREDENTIALS[kind](world)
    ask(Caller(kind=kind, headers={"Authorization": f"Bearer {token}"}), unanswered(), world, [token])


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("place", ["query", "cookies"])
def test_a_credential_in_another_place_than_the_header_opens_nothing(world: World, kind: str, place: str) -> None:
    token = CREDENTIALS[kind](world)
    given = dict.fromkeys(
        ("token", "access_token", "authorization", "Authorization", configured.SESSION_COOKIE_NAME), token
    )
    caller = Caller(
        kind="nothing", query=given if place == "query" else {}, cookies=given if place == "cookies" else {}
    )
    ask(caller, answered(), world)


@pytest.mark.parametrize("scheme", ["Basic", "Token", "JWT", ""])
@pytest.mark.parametrize("kind", ["owner", "pilot", "job", "secret", "registering site"])
def test_a_credential_of_another_scheme_opens_nothing(world: World, kind: str, scheme: str) -> None:
    token = CREDENTIALS[kind](world)
    headers = {"Authorization": f"{scheme} {token}".strip()}
    caller = Caller(kind="nothing", headers=headers)
    for address in addresses():
        told_to_all = address.name in DOCUMENTATION or any(opens(caller, method, address) for method in METHODS)
        if address.is_api and not told_to_all:
            assert caller.ask("POST", address, world).status_code == 401, address.name


def test_everything_below_api_is_opened_by_somebody() -> None:
    """An address that nobody opens has not been thought of in the tables above."""
    opened = OPEN_TO_ALL.union(*OPENED.values())
    answered = {
        f"{method} {address.name}"
        for address in addresses()
        if address.is_api
        for method in address.answers - {"HEAD"}
        if address.name not in DOCUMENTATION
    }
    assert answered - opened == set()
    assert opened - answered == set()
