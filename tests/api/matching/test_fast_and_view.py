"""Whatever a pilot sends, the answer before the frameworks is that of the view, which calls the same function."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from matching.models import Match
from matching.services import job_tokens
from pilots.models import Pilot
from tests import factories
from tests.api.matching.conftest import SampleData, lease_for
from tests.cases import examples
from tests.clock import stop_clock
from tests.wsgi import FastClient
from wms.jobs.models import Job, JobCommand

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer
    from rest_framework.test import APIClient

#: Sends a request by one way.
Send = Callable[[Client], "Answer"]

PLAIN: Final = "application/json"
ADDRESSES: Final = ("matches/", *(f"matches/LEASE/{report}/" for report in ("heartbeat", "status", "finish")))
#: For each address: a valid body, and values for its fields, most of them valid.
GOOD: Final[Sequence[Mapping[str, Any]]] = (
    {"cpu_time_s": 300_000, "request_id": str(UUID(int=1, version=4))},
    {"cpu_s": 1.5},
    {"status": "Running"},
    {"exit_code": 1, "usage": {"cpu_s": 2}},
)
VALUES: Final[Sequence[Mapping[str, Sequence[object]]]] = (
    {
        "max_jobs": [1, 3, 0],
        "memory_mb": [4000, 4000.0, "4000"],
        "tags": [[], ["gpu"], "gpu"],
        "site": ["elsewhere", "", "é"],
        "setup": ["LHCb-Devel", "no setup"],
    },
    {
        "cpu_s": [None, 0, -0.0, 10**12, 10**12 + 1, -1, True, "1"],
        "std_output": ["", "é\n", "\u2028\u2029", "\N{GRINNING FACE}", "x" * 16_385, 5, None],
        "acknowledged": [[], [10**9], [2.0], [0.5], None, [2**63], ["kill"], [7] * 1001],
    },
    {
        "status": ["Completing", "running", None, ["Running"]],
        "minor_status": ["", "Packing", "x" * 256, None],
        "minor": ["x"],
    },
    {
        "exit_code": [0, 0.0, 222, None, 2**31, "0", 0.5],
        "usage": [{}, None, [], {"cpu": 1}],
        "output_sandbox": [None, "", "x", f"sha256:{'0' * 64}", 5],
        "fault": ["job", "supervisor", "pilot", None, ""],
    },
)
TEXTS: Final = (
    b"", b"null", b"[]", b" {} ", b"{}{}", b"\xff", b"\xef\xbb\xbf{}", b'{"cpu_s":1e400}', b'{"cpu_s":1,"cpu_s":2}',
    b'{"std_output":"\\u0000"}', b'{"std_output":"\\ud83d"}', b'{"site":"\\ud83d"}',
)  # fmt: skip
HEADERS: Final[Sequence[Mapping[str, str]]] = (
    *[{}] * 5,
    {"Accept": "*/*"},
    {"Accept": "text/html"},
    {"Accept-Encoding": "gzip"},
    {"Content-Encoding": "gzip"},
)
CALLERS: Final = ("job", "pilot", "old job", "old pilot", "other pilot", "expired pilot", "owner", "nobody")


def _body(number: int) -> st.SearchStrategy[bytes]:
    changes = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in VALUES[number].items()})
    valid = changes.map(lambda changed: json.dumps({**GOOD[number], **changed}, ensure_ascii=False).encode())
    return st.one_of(valid, valid, st.just(json.dumps(GOOD[number]).encode()), st.sampled_from(TEXTS))


REQUEST: Final = st.sampled_from(range(len(ADDRESSES))).flatmap(
    lambda number: st.fixed_dictionaries(
        {
            "address": st.sampled_from([ADDRESSES[number]] * 9 + [ADDRESSES[number][:-1]]),
            "body": _body(number),
            "caller": st.sampled_from(CALLERS[:4] * 2 + CALLERS if number else ("pilot", *CALLERS)),
            "content_type": st.sampled_from([PLAIN] * 7 + ["application/JSON", "text/plain", ""]),
            "headers": st.sampled_from(HEADERS),
        }
    )
)
STATES: Final = ("open", "open", "open", "killed", "ended", "revoked")


@pytest.fixture
def tokens(sample: SampleData, pilot: "APIClient", monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lease a job, with another that waits; return the tokens of callers."""
    monkeypatch.setattr("matching.api.views.seconds_to_wait", lambda *_, **__: 7)
    factories.make_job(owner=sample.alice, group=sample.prod)
    stop_clock()
    given = lease_for(pilot)
    match, now = Match.objects.get(), timezone.now()
    JobCommand.objects.create(job=match.job, name="peek", arguments={"because": "\u2028é"}, created_at=now)
    factories.make_job(owner=sample.alice, group=sample.prod, arguments="\u2028 \N{GRINNING FACE} é")
    minutes = timedelta(minutes=20)
    return {
        "job": given["token"],
        "old job": job_tokens.issue(match.pk, job_id=match.job_id, now=now - timedelta(hours=20)),
        "pilot": factories.make_pilot_token(sample.pilot),
        "old pilot": factories.make_pilot_token(sample.pilot, lifetime=minutes),
        "expired pilot": factories.make_pilot_token(sample.pilot, lifetime=-minutes),
        "other pilot": factories.make_pilot_token(factories.make_pilot(vo=sample.vo)),
        "owner": factories.make_token(sample.alice),
    }


def send(client: Client, sent: Mapping[str, Any], *, tokens: Mapping[str, str], lease: UUID) -> "Answer":
    headers = dict(sent["headers"])
    if sent["caller"] in tokens:
        headers["Authorization"] = f"Bearer {tokens[sent['caller']]}"
    path = f"/api/v1/{sent['address'].replace('LEASE', str(lease))}"
    return client.generic("POST", path, sent["body"], content_type=sent["content_type"], headers=headers)


def arrange(state: str) -> None:
    now = timezone.now()
    Pilot.objects.update(revoked_at=now if state == "revoked" else None)
    Match.objects.update(ended_at=now if state == "ended" else None, end_reason="expired" if state == "ended" else "")
    if state == "killed":
        Job.objects.filter(matches__isnull=False).update(status="Killed", ended_at=now)


@contextmanager
def undone() -> Iterator[None]:
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


def _headers(answer: "Answer") -> dict[str, str]:
    # The frameworks write some characters otherwise, which is the same JSON.
    return {**answer.headers, "Content-Length": ""}


def _content(answer: "Answer") -> object:
    text = re.sub(r'"(match_id|token)":"(wms[pj]_)?[^"]*"', r'"\1":"\2"', answer.content.decode())
    return json.loads(text or "null")


def outcome(client: Client, requests: Sequence[Send]) -> tuple[list[object], list[object]]:
    """Return the answers without keys of new leases and signatures of tokens, and the rows after them."""
    with undone():
        answers = [request(client) for request in requests]
        assert all(answer.status_code < 500 for answer in answers)
        seen = [(answer.status_code, _headers(answer), _content(answer)) for answer in answers]
        rows = [
            *Job.objects.order_by("pk").values(),
            *Match.objects.order_by("job_id").values("ended_at", "reported_at"),
        ]
    return list(seen), list(rows)


@settings(
    max_examples=examples(100),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(state=st.sampled_from(STATES), sent=st.lists(REQUEST, min_size=1, max_size=3))
def test_what_is_sent_is_answered_and_done_alike(
    tokens: dict[str, str], state: str, sent: Sequence[Mapping[str, Any]]
) -> None:
    with undone():
        arrange(state)
        lease = Match.objects.get().pk
        requests: list[Send] = [partial(send, sent=each, tokens=tokens, lease=lease) for each in sent]
        fast, by_view = (outcome(client, requests) for client in (FastClient(), Client(raise_request_exception=False)))
        assert fast == by_view
