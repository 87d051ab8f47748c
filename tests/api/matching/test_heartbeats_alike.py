"""Heartbeats of all kinds, sent by three ways: the answers and the changed rows are the same.

The ways are that of PlainHeartbeats, that of the view without it, and the frameworks' own.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from matching.models import Match
from matching.services import job_tokens
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from tests import factories
from tests.api.matching.conftest import SampleData, lease_for
from tests.clock import stop_clock
from tests.wsgi import FrontDoor
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory
from wms.kernel.db import database_now

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer
    from rest_framework.test import APIClient

PLAIN: Final = "application/json"
NOT_PLAIN: Final = "application/json; charset=utf-8"
#: For an id among those acknowledged: the first, second, third order of the job.
ORDERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a lease, its job and its pilot when a heartbeat arrives."""

    job: Mapping[str, object]
    lease: Mapping[str, object]
    pilot: Mapping[str, object]
    #: Which orders were acknowledged before.
    obeyed: Sequence[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One request."""

    body: bytes
    caller: str
    content_type: str
    headers: Mapping[str, str]


MEASURES: Final = st.one_of(
    st.none(),
    st.sampled_from([0, -0.0, 5e-324, 0.1, 3.0, 7, 10**12, 10**12 + 1, -1, 1e300, True, "1", [], 2**53 + 1]),
    st.floats(min_value=0, max_value=1e12),
)
TEXTS: Final = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["", "é\n", "\u2028\u2029", "\N{GRINNING FACE}", "x" * 16_384, "x" * 16_385, 5, "\x7f\x1b[2J"]),
)
ACKNOWLEDGED: Final[st.SearchStrategy[object]] = st.one_of(
    st.lists(st.sampled_from([0, 1, 2, 10**9, 2.0, -1]), max_size=3),
    st.sampled_from([None, {}, ["1"], [None], [0.5], [True], [2**63 - 1], [2**63], [7] * 1001]),
)
FIELDS: Final = {
    "cpu_s": MEASURES,
    "wall_s": MEASURES,
    "memory_mb": MEASURES,
    "disk_mb": MEASURES,
    "std_output": TEXTS,
    "acknowledged": ACKNOWLEDGED,
}
GOOD_NUMBER: Final = st.one_of(st.none(), st.integers(0, 10**12), st.floats(min_value=0, max_value=1e12))
GOOD: Final = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("cpu_s", "wall_s", "memory_mb", "disk_mb"), GOOD_NUMBER),
        "std_output": st.text(max_size=20),
        "acknowledged": st.lists(st.integers(0, ORDERS), min_size=1, max_size=ORDERS),
    },
).map(lambda body: json.dumps(body).encode())
BODIES: Final = st.one_of(
    GOOD,
    st.fixed_dictionaries({}, optional=FIELDS).map(lambda body: json.dumps(body, ensure_ascii=False).encode()),
    st.sampled_from(
        [b"", b"null", b"[]", b" {} ", b"{}{}", b"\xef\xbb\xbf{}", b'{"cpu_s":1e400}', b'{"cpu_s":1,"cpu_s":2}',
         b'{"CPU_s":1}', b'{"std_output":"\\u0000"}', b'{"std_output":"\\ud83d\\ude00"}', b'{"std_output":"\\ud83d"}']
    ),
)  # fmt: skip
ORDINARY: Final = st.builds(
    Beat,
    body=GOOD,
    caller=st.sampled_from(["job", "pilot", "old job", "old pilot"]),
    content_type=st.just(PLAIN),
    headers=st.just({}),
)
HOSTILE: Final = st.builds(
    Beat,
    body=BODIES,
    caller=st.sampled_from(["job", "pilot", "old job", "old pilot", "other pilot", "expired pilot", "owner", "nobody"]),
    content_type=st.sampled_from([PLAIN] * 6 + ["application/JSON", "text/plain", ""]),
    headers=st.sampled_from(
        [{}, {}, {"Accept": "*/*"}, {"Accept": PLAIN}, {"Accept": "text/html"}, {"Content-Encoding": "gzip"}]
    ),
)
MOMENTS: Final = st.sampled_from([None, -timedelta(days=1), -timedelta(minutes=3), timedelta(0), timedelta(days=1)])


SELDOM: Final = st.sampled_from([None] * 7 + [timedelta(0)])
STATES: Final = st.builds(
    State,
    job=st.fixed_dictionaries(
        {
            "status": st.sampled_from(sorted({*LEASED, JobStatus.KILLED, JobStatus.RESCHEDULED})),
            "cpu_s": st.sampled_from([None, 0.0, 5.5]),
            "std_output_tail": st.sampled_from(["", "before"]),
        }
    ),
    lease=st.fixed_dictionaries(
        {
            "ended_at": SELDOM,
            "reported_at": MOMENTS,
            "expires_at": MOMENTS.filter(lambda at: at is not None),
            "reported_status": st.sampled_from([JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING]),
        }
    ),
    pilot=st.fixed_dictionaries(
        {
            "revoked_at": SELDOM,
            "ended_at": SELDOM,
            "last_seen_at": MOMENTS,
        }
    ),
    obeyed=st.lists(st.booleans(), min_size=ORDERS, max_size=ORDERS),
)


@pytest.fixture
def lease(sample: SampleData, pilot: "APIClient") -> dict[str, Any]:
    factories.make_job(owner=sample.alice, group=sample.prod)
    stop_clock()
    given = lease_for(pilot)
    for number, name in enumerate(("drain", "peek", "kill")):
        arguments = {"because": "\u2028é", "times": [number, 1.0]}
        JobCommand.objects.create(job_id=given["job"]["id"], name=name, arguments=arguments, created_at=timezone.now())
    return given


@pytest.fixture
def tokens(sample: SampleData, lease: dict[str, Any]) -> Mapping[str, str]:
    match, other = Match.objects.get(), factories.make_pilot(vo=sample.vo)
    minutes, hours = timedelta(minutes=20), timedelta(hours=20)
    return {
        "job": lease["token"],
        "old job": job_tokens.issue(match.pk, job_id=match.job_id, now=timezone.now() - hours),
        "pilot": factories.make_pilot_token(sample.pilot),
        "old pilot": factories.make_pilot_token(sample.pilot, lifetime=minutes),
        "expired pilot": factories.make_pilot_token(sample.pilot, lifetime=-minutes),
        "other pilot": factories.make_pilot_token(other),
        "owner": factories.make_token(sample.alice),
    }


def same_token(content: bytes) -> bytes:
    """Remove from a renewed token the part that depends on the second of its signature."""
    return re.sub(rb'"token":"(wms[pj]_)[^"]*"', rb'"token":"\1"', content)


def arrange(state: State, *, now: datetime) -> None:
    """Store the rows of *state*."""

    def columns(given: Mapping[str, object]) -> dict[str, Any]:
        return {name: now + at if isinstance(at, timedelta) else at for name, at in given.items()}

    Job.objects.update(**columns(state.job), ended_at=now if state.job["status"] in FINAL else None)
    Match.objects.update(**columns(state.lease), end_reason="expired" if state.lease["ended_at"] is not None else "")
    status = PilotStatus.RUNNING if state.pilot["ended_at"] is None else PilotStatus.LOST
    Pilot.objects.filter(pk=Match.objects.get().pilot_id).update(**columns(state.pilot), status=status)
    for order, obeyed in zip(JobCommand.objects.order_by("pk"), state.obeyed, strict=True):
        JobCommand.objects.filter(pk=order.pk).update(acknowledged_at=now if obeyed else None)


def everything() -> list[object]:
    models = (Job, Match, Pilot, JobCommand, QueuedJob)
    history = list(JobHistory.objects.order_by("pk").values("status", "minor_status", "source", "changed_at"))
    return [*(list(model._default_manager.order_by("pk").values()) for model in models), history]


Send = Callable[[str, Beat], "Answer"]


@pytest.fixture
def send(lease: dict[str, Any], tokens: Mapping[str, str]) -> Send:
    """Return a function that sends a heartbeat by the named way."""
    orders = list(JobCommand.objects.order_by("pk").values_list("pk", flat=True))
    ways = {"plain": FrontDoor(), "view": Client(raise_request_exception=False)}

    def numbered(body: bytes) -> bytes:
        """Replace acknowledged numbers by ids of the job's commands; 0 is the first."""
        try:
            said = json.loads(body)
            said["acknowledged"] = [orders[n] if n in range(ORDERS) else n for n in said["acknowledged"]]
        except (ValueError, TypeError, KeyError):
            return body
        return json.dumps(said, ensure_ascii=False).encode()

    def send(way: str, beat: Beat) -> "Answer":
        headers = dict(beat.headers)
        if beat.caller in tokens:
            headers["Authorization"] = f"Bearer {tokens[beat.caller]}"
        kind = NOT_PLAIN if way == "frameworks" and beat.content_type == PLAIN else beat.content_type
        path = f"/api/v1/matches/{lease['match_id']}/heartbeat/"
        client = ways["plain" if way == "plain" else "view"]
        return client.generic("POST", path, numbered(beat.body), content_type=kind, headers=headers)

    return send


@pytest.fixture
def alike(send: Send) -> Callable[[State, Sequence[Beat]], None]:
    """Return a function that sends heartbeats by all ways, and fails if the answers differ."""

    def alike(state: State, beats: Sequence[Beat]) -> None:
        told, left, now = {}, {}, database_now()
        for way in ("plain", "view", "frameworks"):
            before = transaction.savepoint()
            try:
                arrange(state, now=now)
                told[way] = [send(way, beat) for beat in beats]
                left[way] = everything()
            finally:
                transaction.savepoint_rollback(before)

        for plain, view, frameworks in zip(*told.values(), strict=True):
            assert plain.status_code < 500
            assert plain.status_code == view.status_code == frameworks.status_code
            assert plain.headers == view.headers
            assert same_token(plain.content) == same_token(view.content)
            # The frameworks write some characters otherwise, which is the same JSON.
            assert json.loads(same_token(plain.content)) == json.loads(same_token(frameworks.content))
        assert left["plain"] == left["view"] == left["frameworks"]

    return alike


Alike = Callable[[State, Sequence[Beat]], None]
# Found the first time, or not at all: to shrink an example by requests takes minutes.
EXAMPLES: Final = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@EXAMPLES
@given(state=STATES, beats=st.lists(ORDINARY, min_size=1, max_size=3))
def test_what_pilots_send_is_answered_and_done_alike(alike: Alike, state: State, beats: Sequence[Beat]) -> None:
    alike(state, beats)


@EXAMPLES
@given(state=STATES, beats=st.lists(HOSTILE, min_size=1, max_size=3))
def test_whatever_is_sent_is_answered_and_done_alike(alike: Alike, state: State, beats: Sequence[Beat]) -> None:
    alike(state, beats)
