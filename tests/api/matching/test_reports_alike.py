"""Reports of all kinds on leases in all states, sent by several ways (``alike``)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from matching.models import Match
from matching.services import job_tokens, signs_of_life
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from taskqueues.models import Limit
from tests import factories
from tests.api.matching.alike import CONTENT_TYPES, EXAMPLES, HEADERS, SERVICES, Alike, Sent, alike, columns
from tests.api.matching.conftest import SampleData, lease_for
from tests.clock import stop_clock
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.jobs.models import Job, JobCommand, OutputTail, Sandbox, SandboxUpload
from wms.kernel.db import database_now
from wms.wire.protocol import output_sandbox_name

if TYPE_CHECKING:
    from rest_framework.test import APIClient

#: For an id among those acknowledged: the first, second, third command of the job.
COMMANDS: Final = 3
#: For the key of the lease in an address.
LEASE: Final = "LEASE"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a lease, its job and its pilot when a report arrives."""

    job: Mapping[str, object]
    lease: Mapping[str, object]
    pilot: Mapping[str, object]
    #: Which commands were acknowledged before.
    acknowledged: Sequence[bool]


MEASURES: Final = st.one_of(
    st.none(),
    st.sampled_from([0, -0.0, 5e-324, 0.1, 3.0, 7, 10**12, 10**12 + 1, -1, 1e300, True, "1", [], 2**53 + 1]),
    st.floats(min_value=0, max_value=1e12),
)
OUTPUTS: Final = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["", "é\n", "\u2028\u2029", "\N{GRINNING FACE}", "x" * 16_384, "x" * 16_385, 5, "\x7f\x1b[2J"]),
)
ACKNOWLEDGED: Final[st.SearchStrategy[object]] = st.one_of(
    st.lists(st.sampled_from([0, 1, 2, 10**9, 2.0, -1]), max_size=3),
    st.sampled_from([None, {}, ["1"], [None], [0.5], [True], [2**63 - 1], [2**63], [7] * 1001]),
)
HEARTBEAT: Final = {
    "cpu_s": MEASURES,
    "wall_s": MEASURES,
    "memory_mb": MEASURES,
    "disk_mb": MEASURES,
    "std_output": OUTPUTS,
    "std_error": OUTPUTS,
    "acknowledged": ACKNOWLEDGED,
}
GOOD_NUMBER: Final = st.one_of(st.none(), st.integers(0, 10**12), st.floats(min_value=0, max_value=1e12))
USAGE: Final = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("cpu_s", "wall_s", "memory_mb", "disk_mb"), GOOD_NUMBER)
)
MINOR: Final = st.sampled_from(["", "Input data resolved", "é \N{GRINNING FACE}"])
#: Outputs: uploaded for the job, by another user under its name, by its owner under another name, and not at all.
OUTPUT, OF_ANOTHER, NOT_OUTPUT, SANDBOX = (f"sha256:{digit * 64}" for digit in "1230")
TAILS: Final = dict.fromkeys(("std_output", "std_error"), st.text(max_size=20))
GOOD: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "heartbeat": st.builds(
        lambda usage, more: {**usage, **more},
        USAGE,
        st.fixed_dictionaries(
            {},
            optional={
                **TAILS,
                "acknowledged": st.lists(st.integers(0, COMMANDS), min_size=1, max_size=COMMANDS),
            },
        ),
    ),
    "status": st.fixed_dictionaries(
        {"status": st.sampled_from([JobStatus.RUNNING, JobStatus.COMPLETING])},
        optional={"minor_status": MINOR, "application_status": MINOR},
    ),
    "finish": st.fixed_dictionaries(
        {"exit_code": st.sampled_from([0, 0, 1, 126, 222, 222, None]), "usage": USAGE},
        optional={
            "minor_status": MINOR,
            "output_sandbox": st.sampled_from([None, None, OUTPUT, OUTPUT, OUTPUT, OF_ANOTHER, NOT_OUTPUT, SANDBOX]),
            "fault": st.sampled_from([None, "job", "supervisor"]),
            **TAILS,
        },
    ),
}
ODD: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "heartbeat": st.fixed_dictionaries({}, optional=HEARTBEAT),
    "status": st.fixed_dictionaries(
        {"status": st.sampled_from([JobStatus.RUNNING, "Running ", "running", JobStatus.DONE, None, 1, ["Running"]])},
        optional={"minor_status": OUTPUTS, "application_status": OUTPUTS, "minor": OUTPUTS},
    ),
    "finish": st.fixed_dictionaries(
        {},
        optional={
            "exit_code": st.sampled_from([0, 0, 0, 0.0, -1, 2**31, True, "0", 0.5]),
            "usage": st.one_of(
                st.just({}), st.sampled_from([None, [], {"cpu": 1}]), MEASURES.map(lambda m: {"cpu_s": m})
            ),
            "minor_status": OUTPUTS,
            "output_sandbox": st.sampled_from([None, "", "x", 5, "1" * 64, SANDBOX]),
            "fault": st.sampled_from([None, "", "job", "pilot", 1, ["job"]]),
            "std_output": OUTPUTS,
            "std_error": OUTPUTS,
        },
    ),
}
TEXTS: Final = [
    b"", b"null", b"[]", b" {} ", b"{}{}", b"\xef\xbb\xbf{}", b'{"cpu_s":1e400}', b'{"cpu_s":1,"cpu_s":2}',
    b'{"CPU_s":1}', b'{"std_output":"\\u0000"}', b'{"std_output":"\\ud83d\\ude00"}', b'{"std_output":"\\ud83d"}',
    b'{"status":"Running","minor_status":"\\u0000"}', b'{"exit_code":0,"usage":{"cpu_s":1,"cpu_s":1}}',
]  # fmt: skip
CALLERS: Final = ["job", "pilot", "old job", "old pilot"]
STRANGERS: Final = ["other pilot", "expired pilot", "owner", "nobody"]


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _ordinary(report: str) -> st.SearchStrategy[Sent]:
    address = st.just(f"matches/{LEASE}/{report}/")
    return st.builds(
        Sent, address=address, body=GOOD[report].map(_json), caller=st.sampled_from(CALLERS), headers=st.just({})
    )


def _hostile(report: str) -> st.SearchStrategy[Sent]:
    return st.builds(
        Sent,
        address=st.sampled_from([f"matches/{LEASE}/{report}/"] * 9 + [f"matches/{LEASE}/{report}"]),
        body=st.one_of(GOOD[report].map(_json), ODD[report].map(_json), st.sampled_from(TEXTS)),
        caller=st.sampled_from([*CALLERS, *STRANGERS]),
        content_type=st.sampled_from(CONTENT_TYPES),
        headers=st.sampled_from(HEADERS),
    )


ORDINARY: Final = st.one_of(*map(_ordinary, GOOD))
HOSTILE: Final = st.one_of(*map(_hostile, GOOD))
MOMENTS: Final = st.sampled_from([None, -timedelta(days=1), -timedelta(minutes=3), timedelta(0), timedelta(days=1)])


SELDOM: Final = st.sampled_from([None] * 7 + [timedelta(0)])
STATUSES: Final = sorted({*LEASED, JobStatus.KILLED, JobStatus.RESCHEDULED})


def _states(statuses: Sequence[str], seldom: st.SearchStrategy[timedelta | None]) -> st.SearchStrategy[State]:
    """Return states of jobs in these statuses; *seldom* is a time for ends of leases and pilots."""
    return st.builds(
        State,
        job=st.fixed_dictionaries(
            {
                "status": st.sampled_from(statuses),
                "application_status": st.sampled_from(["", "Event 7"]),
                "started_at": MOMENTS,
                "cpu_s": st.sampled_from([None, 0.0, 5.5]),
                "reschedules": st.sampled_from([0, 1]),
                "std_output_tail": st.sampled_from(["", "before"]),
            }
        ),
        lease=st.fixed_dictionaries(
            {
                "ended_at": seldom,
                "reported_at": MOMENTS,
                "expires_at": MOMENTS.filter(lambda at: at is not None),
                "reported_status": st.sampled_from([JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING]),
            }
        ),
        pilot=st.fixed_dictionaries({"revoked_at": seldom, "ended_at": seldom, "last_seen_at": MOMENTS}),
        acknowledged=st.lists(st.booleans(), min_size=COMMANDS, max_size=COMMANDS),
    )


STATES: Final = _states(STATUSES, SELDOM)
#: Of open leases.
USUAL_STATES: Final = _states(sorted(LEASED), st.none())

#: One of each kind of report, with all of their fields and with none that can be left out.
EVERY_REPORT: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    *[("status", {"status": status}) for status in (JobStatus.RUNNING, JobStatus.COMPLETING)],
    ("status", {"status": JobStatus.RUNNING, "minor_status": "Begun", "application_status": "Event 8"}),
    ("status", {"status": JobStatus.COMPLETING, "minor_status": "Packing", "application_status": ""}),
    *[("finish", {"exit_code": exit_code, "usage": {}}) for exit_code in (0, 1, 126, 222, None)],
    ("heartbeat", {}),
    *[("heartbeat", {"cpu_s": 9.0, "memory_mb": 7.5, name: "after"}) for name in ("std_output", "std_error")],
    *[
        (
            "finish",
            {
                "exit_code": exit_code,
                "usage": {"cpu_s": cpu_s, "wall_s": 7.0, "memory_mb": 8.0, "disk_mb": 9.0},
                "minor_status": "At an end",
                "output_sandbox": output,
                "fault": fault,
                "std_output": "after",
                "std_error": "failed",
            },
        )
        for exit_code, cpu_s in ((0, 6.0), (1, 5.0), (None, None))
        for output, fault in ((OUTPUT, None), (OUTPUT, "job"), (OF_ANOTHER, None), (NOT_OUTPUT, None))
    ],
)


@pytest.fixture
def lease(sample: SampleData, pilot: "APIClient") -> dict[str, Any]:
    factories.make_job(owner=sample.alice, group=sample.prod)
    stop_clock()
    Limit.objects.create(vo=sample.vo, running=5)
    Limit.objects.create(group=sample.prod, running=5, cpu_s_per_day=10**15)
    given = lease_for(pilot)
    uploads = {OUTPUT: (sample.alice, given["job"]["id"]), OF_ANOTHER: (sample.bob, given["job"]["id"])}
    for reference, (owner, job_id) in {**uploads, NOT_OUTPUT: (sample.alice, 10**6)}.items():
        sandbox = Sandbox.objects.create(
            digest=reference.removeprefix("sha256:"), size_bytes=1, is_archive=True, created_at=timezone.now()
        )
        SandboxUpload.objects.create(
            sandbox=sandbox, owner=owner, file_name=output_sandbox_name(job_id), uploaded_at=timezone.now()
        )
    for number, name in enumerate(("drain", "peek", "kill")):
        arguments = {"because": "\u2028é", "times": [number, 1.0]}
        JobCommand.objects.create(job_id=given["job"]["id"], name=name, arguments=arguments, created_at=timezone.now())
    return given


@pytest.fixture
def tokens(sample: SampleData, lease: dict[str, Any]) -> dict[str, str]:
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


@pytest.fixture
def compared(tokens: dict[str, str]) -> Alike:
    return alike(tokens)


@pytest.fixture
def compared_with_services(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Alike:
    # Every report writes the time of the pilot's last sign of life, as the services do, even if it is in the future.
    monkeypatch.setattr(signs_of_life, "SEEN_WITHIN_S", -timedelta(days=10).total_seconds())
    return alike(tokens, ways=("view", SERVICES))


def arrange(state: State, *, now: datetime) -> None:
    """Store the rows of *state*."""
    ended_at = now if state.job["status"] in FINAL else None
    of_job = dict(columns(state.job, now=now))
    OutputTail.objects.all().delete()
    tail = of_job.pop("std_output_tail")
    Job.objects.update(**of_job, ended_at=ended_at)
    if tail:
        job = Job.objects.get()
        OutputTail.objects.create(job=job, attempt=job.attempt, std_output=tail)
    reason = "expired" if state.lease["ended_at"] is not None else ""
    Match.objects.update(**columns(state.lease, now=now), end_reason=reason)
    status = PilotStatus.RUNNING if state.pilot["ended_at"] is None else PilotStatus.LOST
    Pilot.objects.filter(pk=Match.objects.get().pilot_id).update(**columns(state.pilot, now=now), status=status)
    for command, acknowledged in zip(JobCommand.objects.order_by("pk"), state.acknowledged, strict=True):
        JobCommand.objects.filter(pk=command.pk).update(acknowledged_at=now if acknowledged else None)


def of_lease(sent: Sent) -> Sent:
    """Return the request with the key of the lease, and with ids of its commands for their numbers."""
    commands = list(JobCommand.objects.order_by("pk").values_list("pk", flat=True))
    sent = replace(sent, address=sent.address.replace(LEASE, str(Match.objects.get().pk)))
    try:
        body = json.loads(sent.body)
        body["acknowledged"] = [commands[n] if n in range(COMMANDS) else n for n in body["acknowledged"]]
    except (ValueError, TypeError, KeyError):
        return sent
    return replace(sent, body=_json(body))


@EXAMPLES
@given(state=STATES, reports=st.lists(ORDINARY, min_size=1, max_size=3))
def test_what_pilots_send_is_answered_and_done_alike(compared: Alike, state: State, reports: Sequence[Sent]) -> None:
    compared(partial(arrange, state, now=database_now()), [*map(of_lease, reports)])


@EXAMPLES
@given(state=STATES, reports=st.lists(HOSTILE, min_size=1, max_size=3))
def test_whatever_is_sent_is_answered_and_done_alike(compared: Alike, state: State, reports: Sequence[Sent]) -> None:
    compared(partial(arrange, state, now=database_now()), [*map(of_lease, reports)])


@pytest.mark.parametrize("status", STATUSES)
def test_one_statement_does_what_the_services_do_for_each_kind_of_report(
    compared_with_services: Alike, status: str
) -> None:
    long, short = timedelta(days=1), timedelta(minutes=3)
    state = State(
        job={
            "status": status,
            "application_status": "Event 7",
            "started_at": -short,
            "cpu_s": 5.5,
            "wall_s": 7.5,
            "reschedules": 1,
            "std_output_tail": "before",
        },
        lease={"ended_at": None, "reported_at": -short, "expires_at": long, "reported_status": JobStatus.MATCHED},
        pilot={"revoked_at": None, "ended_at": None, "last_seen_at": -long},
        acknowledged=[False, True, False],
    )
    for report, body in EVERY_REPORT:
        sent = Sent(address=f"matches/{LEASE}/{report}/", body=_json(body), caller="job", headers={})
        compared_with_services(partial(arrange, state, now=database_now()), [of_lease(sent)])


@EXAMPLES
@given(state=USUAL_STATES, reports=st.lists(ORDINARY, min_size=1, max_size=3))
def test_one_statement_does_what_the_services_do(
    compared_with_services: Alike, state: State, reports: Sequence[Sent]
) -> None:
    compared_with_services(partial(arrange, state, now=database_now()), [*map(of_lease, reports)])


@EXAMPLES
@given(state=STATES, reports=st.lists(HOSTILE, min_size=1, max_size=3))
def test_one_statement_does_what_the_services_do_whatever_is_sent(
    compared_with_services: Alike, state: State, reports: Sequence[Sent]
) -> None:
    compared_with_services(partial(arrange, state, now=database_now()), [*map(of_lease, reports)])
