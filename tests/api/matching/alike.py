"""Requests of pilots, sent by several ways from the same state: the answers and the changed rows are the same.

The ways are that of FastApplication, that of the view without it, the frameworks' own, and that of the view without the
single statements for ordinary reports.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import Sum
from django.test import Client
from hypothesis import HealthCheck, Phase, settings

from matching.models import Match
from matching.services import ordinary_reports
from taskqueues.models import ChangedGroup, LimitEvent, TaskQueueChange
from tests.wsgi import FrontDoor
from wms.jobs.models import JobCountChange

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

PLAIN: Final = "application/json"
NOT_PLAIN: Final = "application/json; charset=utf-8"
#: Headers and content types, most of them those of ordinary requests.
HEADERS: Final[Sequence[Mapping[str, str]]] = (
    *[{}] * 4,
    {"Accept": "*/*"},
    {"Accept": PLAIN},
    {"Accept": "text/html"},
    {"Content-Encoding": "gzip"},
    {"Content-Encoding": "identity"},
)
CONTENT_TYPES: Final = [PLAIN] * 6 + ["application/JSON", "text/plain", ""]

#: Apps whose rows requests of pilots change.
_APPS: Final = ("jobs", "matching", "pilots", "taskqueues")
#: Ways that are compared.
WAYS: Final = ("fast", "view", "frameworks")
#: The way of a view whose reports are not processed by one statement.
SERVICES: Final = "services"
_STATEMENTS: Final = ("renew", "report_ordinary_status", "end_ordinarily")
_BY_THE_MACHINES_CLOCK: Final = frozenset({ChangedGroup, TaskQueueChange})

# Found the first time, or not at all: to shrink an example by requests takes minutes.
EXAMPLES: Final = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request."""

    address: str
    body: bytes
    caller: str
    content_type: str = PLAIN
    headers: Mapping[str, str]


#: Compares the ways of a list of requests, after a function that makes the state.
Alike = Callable[[Callable[[], None], Sequence[Sent]], None]


def alike(
    tokens: Mapping[str, str], *, before_each: Callable[[], None] = lambda: None, ways: Sequence[str] = WAYS
) -> Alike:
    """Return a function that sends requests by all ways, and fails if the answers or the changed rows differ.

    Args:
        tokens: by caller; other callers send none.
        before_each: called before the requests of each way.
        ways: the others are compared with the first.
    """
    clients = {"fast": FrontDoor(), "view": Client(raise_request_exception=False)}

    def send(way: str, sent: Sent) -> "Answer":
        headers = dict(sent.headers)
        if sent.caller in tokens:
            headers["Authorization"] = f"Bearer {tokens[sent.caller]}"
        kind = NOT_PLAIN if way == "frameworks" and sent.content_type == PLAIN else sent.content_type
        client = clients["fast" if way == "fast" else "view"]
        return client.generic("POST", f"/api/v1/{sent.address}", sent.body, content_type=kind, headers=headers)

    def answers_of(way: str, requests: Sequence[Sent]) -> tuple[list[tuple["Answer", str]], list[str]]:
        known = {str(pk) for pk in Match.objects.values_list("pk", flat=True)}
        before_each()
        with pytest.MonkeyPatch.context() as patch:
            for statement in _STATEMENTS if way == SERVICES else ():
                patch.setattr(ordinary_reports, statement, lambda *_, **__: None)
            answers = [send(way, sent) for sent in requests]
        keys = [str(pk) for pk in Match.objects.order_by("job_id", "leased_at").values_list("pk", flat=True)]
        names = {pk: f"new {number}" for number, pk in enumerate(pk for pk in keys if pk not in known)}
        return [(answer, _compared(answer.content.decode(), names)) for answer in answers], rows(names)

    def compare(arrange: Callable[[], None], requests: Sequence[Sent]) -> None:
        with _undone():
            arrange()
            sequences, answers, changed = _sequences(), {}, {}
            for way in ways:
                with _undone():
                    answers[way], changed[way] = answers_of(way, requests)
                _set_back(sequences)
        first, *others = ways
        for way in others:
            for (answer, content), (its_answer, its_content) in zip(answers[first], answers[way], strict=True):
                assert answer.status_code < 500
                assert answer.status_code == its_answer.status_code
                # The frameworks write some characters otherwise, which is the same JSON.
                assert json.loads(content or "null") == json.loads(its_content or "null")
                if way != "frameworks":
                    assert answer.headers == its_answer.headers
                    assert content == its_content
            assert changed[first] == changed[way], sorted({*changed[first]} ^ {*changed[way]})

    return compare


@contextmanager
def _undone() -> Iterator[None]:
    """Roll everything back at the end of the block."""
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


def rows(names: Mapping[str, str]) -> list[str]:
    """Return all rows that requests of pilots may change.

    Args:
        names: for the keys of new leases.
    """
    every = []
    for model in chain.from_iterable(apps.get_app_config(app).get_models() for app in _APPS):
        if not model._meta.managed:
            continue  # a view: its rows are those of tables
        each = model._default_manager.values()
        if model is LimitEvent:
            # One statement writes one row for an end with CPU time, the services two.
            each = each.values("limit", "happened_at").annotate(Sum("jobs_left"), Sum("cpu_s"))
        if model is JobCountChange:
            # For the same reason: what the changes add up to.
            every += [f"{model.__name__} {kind}: {jobs}" for kind, jobs in _counted().items() if jobs]
            continue
        for row in each:
            if model in _BY_THE_MACHINES_CLOCK:
                del row["changed_at"]
            every.append(_compared(f"{model.__name__} {row}", names))
    return sorted(every)


def _counted() -> Counter[tuple[object, ...]]:
    """Return the changes of the numbers of jobs, by their properties."""
    counted: Counter[tuple[object, ...]] = Counter()
    kept = ("submission_id", "owner_id", "group_id", "vo_id", "job_type")
    for side, sign in (("before", -1), ("after", 1)):
        columns = (f"status_{side}", f"site_{side}_id", f"exit_code_{side}")
        changes = JobCountChange.objects.filter(**{f"status_{side}__isnull": False})
        for *kind, jobs in changes.values_list(*kept, *columns, "jobs"):
            counted[tuple(kind)] += sign * jobs
    return counted


def _sequences() -> list[tuple[str, int, bool]]:
    """Return the state of all sequences, which a roll-back does not set back."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(sequencename), coalesce(last_value, start_value), "
            "last_value IS NOT NULL FROM pg_sequences"
        )
        return list(cursor.fetchall())


def _set_back(sequences: Sequence[tuple[str, int, bool]]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("SELECT setval(%s::regclass, %s, %s)", sequences)


def _compared(content: str, names: Mapping[str, str]) -> str:
    """Return the content without what differs between two requests: keys of new leases, and signatures of tokens."""
    for pk, name in names.items():
        content = content.replace(pk, name)
    return re.sub(r'"token":\s*"(wms[pj]_)[^"]*"', r'"token":"\1"', content)


def columns(values: Mapping[str, Any], *, now: Any) -> dict[str, Any]:
    """Return the values of columns, with moments for the durations relative to *now*."""
    return {name: now + value if hasattr(value, "total_seconds") else value for name, value in values.items()}
