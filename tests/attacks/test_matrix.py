"""The matrix: every address and method, requested by every kind of caller, answers as the table in matrix.py says.

A caller with rights of its own requests all of them (``WHOLE`` in matrix_callers.py), most only in the nightly run
(``CASES`` in matrix_requests.py). A caller with the rights of another, or whose credential is refused, requests one
address for each rule (``LIKE``).
"""

import copy
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from django.conf import settings as configured
from django.db import transaction
from pytest_django import Settings

from tests.api.credentials.sample import HERS, PASSWORD, STORAGE_CREDENTIAL
from tests.attacks import matrix
from tests.attacks.matrix import PEOPLE
from tests.attacks.matrix_callers import Caller, Scene, make_caller, make_scene
from tests.attacks.matrix_requests import CASES, Reach, Request, is_redirect, requests_of
from tests.oidc import scripted_provider
from tests.tables import checksums, rows_written
from wms.accounts.models import FailedLogIn, SecurityEvent

REFUSED: Final = frozenset({401, 403, 404})
#: Written by refusals too, on purpose.
LOGS: Final = (FailedLogIn._meta.db_table, SecurityEvent._meta.db_table)
#: 503 where no scheduler runs.
READINESS: Final = "readyz"
#: Open to all, but a token that is none may be told so; its examples have names that are like Alice's.
DOCUMENTATION: Final = frozenset({"schema", "docs"})
READING: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: Of pages, the methods that the table speaks of.
OF_FORMS: Final = ("GET", "HEAD", "POST")
FIRST_ADMIN_PAGE: Final = "/admin/"
#: Where one is sent who is not let in.
LOG_IN_PAGES: Final = frozenset({"/admin/login/", "/accounts/login/", "/accounts/again/", "/accounts/login/code/"})
#: Where whoever is let in is sent there too.
ON_THE_WAY_TO_LOG_IN: Final = frozenset({"/admin/login/", "admin:login", "admin:logout", "portal:log-out"})
#: Their lease, or pilot, is over: they may know of it.
OF_THE_LEASE_ONCE: Final = frozenset(
    {"job of an ended lease", "job of a lease that is over", "job of a revoked pilot", "expired job"}
)
#: A link that is none leads to a page that says so.
FOR_WHAT_THERE_IS_NOT: Final = frozenset({"GET portal:password-link", "POST portal:password-link"})


@pytest.fixture
def scene(db: None, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    # The client copies the context of each template that is rendered, at which nobody looks here.
    monkeypatch.setattr("django.test.client.store_rendered_templates", lambda *_arguments, **_named: None)
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    # Pages of second factors stay open to whoever came to them, however long the requests before them took.
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 24 * 3600
    settings.WMS_FRESH_LOG_IN_S = 24 * 3600  # likewise
    with scripted_provider(settings) as provider:
        yield make_scene(provider)


# ---- what an answer says ---------------------------------------------------------------------------------------------


def is_let_in(answer: Any, request: Request, *, has_written: bool) -> bool:
    if answer.status_code in {301, 302}:
        place = urlsplit(answer.headers["Location"]).path
        if request.name in ON_THE_WAY_TO_LOG_IN:
            return place not in {FIRST_ADMIN_PAGE, "/admin/login/"}
        # The admin leads there from a row that there is not, and from one that was deleted.
        is_gone = place == FIRST_ADMIN_PAGE and request.name.startswith("admin:") and not has_written
        return place not in LOG_IN_PAGES and not is_gone
    return answer.status_code not in REFUSED | {405, 409}


def role_of(caller: Caller, request: Request) -> str:
    return caller.role_at(is_api=request.address.is_api, is_reading=request.method in READING)


def opens(caller: Caller, request: Request) -> bool:
    """Return whether the table allows the request to the caller."""
    role, name = role_of(caller, request), request.name
    if is_redirect(name):
        return role in matrix.OF_THE_ADMIN
    if not request.is_there and request.asked not in FOR_WHAT_THERE_IS_NOT:
        return False
    if request.method == "OPTIONS" and request.address.is_api:
        return any(matrix.opens(role, f"{method} {name}") for method in request.address.answers)
    if request.method not in OF_FORMS and not request.address.is_api:
        return any(matrix.opens(role, f"{method} {name}") for method in OF_FORMS)
    return matrix.opens(role, request.asked, scope=caller.scope)


def changes(caller: Caller, request: Request) -> bool:
    """Return whether the table allows the request to change anything."""
    return request.is_there and matrix.changes(role_of(caller, request), request.asked, scope=caller.scope)


def unlike_the_table(answer: Any, request: Request, caller: Caller, *, let_in: bool) -> str:
    """Return the difference between the answer and the table; empty: none."""
    status, may = answer.status_code, opens(caller, request)
    if status >= 500 and request.name != READINESS:
        return "failed"
    if request.name in DOCUMENTATION and caller.token and status == 401:
        return ""
    if let_in and not may:
        # Pages whose class Django made answer it with the methods that they have.
        is_harmless = request.method == "OPTIONS" and not request.address.is_api and role_of(caller, request) in PEOPLE
        return "" if is_harmless else "is let in"
    # With other methods pages are shown, or not: both are right for whom they are open.
    is_said = request.method in {"GET", "POST"} or (request.address.is_api and request.method in {"PATCH", "DELETE"})
    # What hangs on the row may prevent a deletion.
    is_prevented = request.name.endswith(" delete_selected") and status == 403
    return "is refused" if may and not let_in and is_said and not is_prevented else ""


#: Known to nobody outside the VO.
NAMES_OF_THE_VO: Final = ("lhcb_user", "lhcb_guests", "LCG.CERN.ch", "ce01.cern.ch", "CERN-DST", "alice")
NAMES_OF_THE_SITE: Final = ("LCG.CERN.ch", "ce01.cern.ch")


def disclosed(answer: Any, request: Request, caller: Caller) -> list[str]:
    """Return the secrets that the answer discloses to the caller."""
    text = (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace") + str(answer.headers)
    sent = f"{request.url} {request.body}"
    role = role_of(caller, request)
    secrets = [PASSWORD, STORAGE_CREDENTIAL, *([caller.token] if caller.token else [])]
    if role not in matrix.OF_THE_JOB | matrix.LEASE and request.name not in DOCUMENTATION:
        secrets.append(HERS)
    if role not in matrix.OF_THE_VO | matrix.MACHINES or role == "pilot of another VO":
        own = NAMES_OF_THE_SITE if role in matrix.SITE_ADMINISTRATOR else ()
        secrets += [name for name in NAMES_OF_THE_VO if name not in own and request.name not in DOCUMENTATION]
    return [secret for secret in secrets if secret in text and secret not in sent]


# ---- the matrix ------------------------------------------------------------------------------------------------------


class Asker:
    """The requests of one caller, and the differences from the table that were found."""

    def __init__(self, name: str, scene: Scene) -> None:
        self.name = name
        self.scene = scene
        self.caller = make_caller(name, scene)
        self.cookies = copy.deepcopy(self.caller.client.cookies)
        self.wrong: list[str] = []
        self.before = self.tables()
        self.written = rows_written(without=LOGS)

    def ask_all(self, *, at: Reach) -> None:
        there: dict[str, int] = {}
        for request in requests_of(self.name, self.caller, self.scene, at=at):
            status = self.ask(request)
            if request.is_there:
                there[request.asked] = status
            elif self.must_not_learn_what_there_is(request) and status != there[request.asked]:
                self.wrong.append(f"{request.asked}: {there[request.asked]}, but {status} for what there is not")
        if self.tables() != self.before:
            self.wrong.append("the database is not as it was")

    def ask(self, request: Request) -> int:
        is_undone = changes(self.caller, request)
        savepoint = transaction.savepoint() if is_undone else None
        self.caller.client.cookies = copy.deepcopy(self.cookies)
        answer = request.send(self.caller)
        written, self.written = self.written, rows_written(without=LOGS)
        let_in = is_let_in(answer, request, has_written=self.written != written)
        if trouble := unlike_the_table(answer, request, self.caller, let_in=let_in):
            self.note(request, answer, trouble)
        if names := disclosed(answer, request, self.caller):
            self.note(request, answer, f"is told {', '.join(names)}")
        if savepoint is not None:
            transaction.savepoint_rollback(savepoint)
        elif self.written != written:  # and perhaps undone
            self.check_unchanged(request, answer)
        return int(answer.status_code)

    def must_not_learn_what_there_is(self, request: Request) -> bool:
        """Return whether refusals must not depend on existence: for all callers without rights on the job."""
        role = role_of(self.caller, request)
        is_open = matrix.opens(role, request.asked)
        return not is_open and role not in matrix.OF_THE_JOB | matrix.LEASE and self.name not in OF_THE_LEASE_ONCE

    def tables(self) -> Mapping[str, str]:
        session = self.cookies.get(configured.SESSION_COOKIE_NAME)
        return checksums(without=LOGS, but_session=session.value if session else "")

    def check_unchanged(self, request: Request, answer: Any) -> None:
        after = self.tables()
        changed = sorted(table for table in after if after[table] != self.before[table])
        if changed:
            self.note(request, answer, f"changes {', '.join(changed)}")
        self.before = after

    def note(self, request: Request, answer: Any, trouble: str) -> None:
        what = "" if request.is_there else " of what there is not"
        self.wrong.append(f"{request.asked}{what}: {trouble} ({answer.status_code})")


@pytest.mark.parametrize(
    ("name", "at"),
    [
        pytest.param(name, at, id=f"{name} at {at}", marks=[pytest.mark.slow] * (not is_core))
        for (name, at), is_core in CASES.items()
    ],
)
def test_access_rights_match_the_table_and_refusals_change_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture, name: str, at: Reach
) -> None:
    asker = Asker(name, scene)
    with caplog.at_level(logging.DEBUG if asker.caller.token else logging.INFO):
        asker.ask_all(at=at)
    assert not asker.wrong, f"The {name} departs from the table in tests/attacks/matrix.py:\n" + "\n".join(asker.wrong)
    # NB: the framework's own records carry the request, which no formatter of ours writes.
    logged = "\n".join(
        f"{record.getMessage()} { ({name: value for name, value in vars(record).items() if name != 'request'}) }"
        for record in caplog.records
    )
    recorded = logged + str(list(SecurityEvent.objects.values()))
    secrets = [PASSWORD, STORAGE_CREDENTIAL, *([asker.caller.token] if asker.caller.token else [])]
    assert [secret for secret in secrets if secret in recorded] == []
