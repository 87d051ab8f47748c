"""Requests for jobs of all kinds in many states, sent by three ways (``alike``)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching.services.retry_after import LikelyWork, RetryAfter
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import Queue, Site
from tests import factories
from tests.api.matching.alike import CONTENT_TYPES, EXAMPLES, HEADERS, Alike, Sent, alike, columns
from tests.api.matching.conftest import SampleData
from tests.clock import stop_clock
from wms.kernel.db import database_now

ADDRESS: Final = "matches/"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of pilot, place and jobs when a request arrives."""

    pilot: Mapping[str, object]
    site: Mapping[str, object]
    queue: Mapping[str, object]
    #: Descriptions of the waiting jobs.
    jobs: Sequence[Mapping[str, Any]]


SELDOM: Final = st.sampled_from([None] * 19 + [timedelta(0)])
JOBS: Final = st.fixed_dictionaries(
    {},
    optional={
        "memory_mb": st.sampled_from([1000, 1000, 1000, 8000]),
        "processors": st.sampled_from([1, 1, 1, 2]),
        "sites": st.sampled_from([*[["LCG.CERN.ch"]] * 5, ["LCG.RAL.uk"]]),
        "tags": st.sampled_from([*[[]] * 5, ["gpu"]]),
        "arguments": st.just("\u2028 \N{GRINNING FACE} é"),
        "environment": st.just({"A": "1e16"}),
        "output_data": st.just(["*.root"]),
        "priority": st.sampled_from([1, 9]),
    },
)
STATES: Final = st.builds(
    State,
    pilot=st.fixed_dictionaries(
        {
            "revoked_at": SELDOM,
            "ended_at": SELDOM,
            "drained_at": SELDOM,
            "last_seen_at": st.sampled_from([None, timedelta(0)]),
        }
    ),
    site=st.fixed_dictionaries({"state": st.sampled_from(["active"] * 12 + ["banned", "draining"])}),
    queue=st.fixed_dictionaries({"memory_mb": st.sampled_from([2000, 16_000]), "processors": st.sampled_from([1, 4])}),
    jobs=st.lists(JOBS, min_size=3, max_size=5),
)
#: Few, so that requests are repeated.
REQUEST_IDS: Final = st.sampled_from([str(UUID(int=number, version=4)) for number in range(2)])
GOOD: Final = st.fixed_dictionaries(
    {"cpu_time_s": st.sampled_from([300_000] * 7 + [1]), "request_id": REQUEST_IDS},
    optional={
        "memory_mb": st.sampled_from([4000, 16_000]),
        "processors": st.sampled_from([1, 4]),
        "max_jobs": st.integers(1, 3),
        "tags": st.sampled_from([[], ["gpu"]]),
        "site": st.sampled_from(["LCG.CERN.ch"] * 9 + ["elsewhere"]),
        "platforms": st.sampled_from([[], ["x86_64-el9"]]),
        "container": st.booleans(),
        "vo": st.sampled_from(["lhcb"] * 9 + ["atlas"]),
        "setup": st.sampled_from(["LHCb-Production"] * 8 + ["LHCb-Devel", "no setup"]),
    },
)
ODD_VALUES: Final[st.SearchStrategy[object]] = st.sampled_from(
    [None, "", 0, -1, 1.5, 3.0, True, [], ["é"], {}, "é", "x" * 300, 2**63, "ANY"]
)
ODD: Final = st.builds(
    lambda offer, odd: {**offer, **odd},
    GOOD,
    st.dictionaries(
        st.sampled_from(
            ["cpu_time_s", "request_id", "memory_mb", "max_jobs", "tags", "required_tags", "site", "sites"]
        ),
        ODD_VALUES,
        max_size=2,
    ),
)
TEXTS: Final = [
    b"", b"null", b"[]", b"{}{}", b"\xff", b'{"cpu_time_s":1,"cpu_time_s":1}', b'{"cpu_time_s":1e400}',
    b'{"site":"\\u0000"}', b'{"site":"\\ud83d"}',
]  # fmt: skip


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


ORDINARY: Final = st.builds(
    Sent,
    address=st.just(ADDRESS),
    body=GOOD.map(_json),
    caller=st.sampled_from(["pilot"] * 4 + ["old pilot", "other pilot"]),
    headers=st.just({}),
)
HOSTILE: Final = st.builds(
    Sent,
    address=st.sampled_from([ADDRESS] * 9 + ["matches"]),
    body=st.one_of(GOOD.map(_json), ODD.map(_json), st.sampled_from(TEXTS)),
    caller=st.sampled_from(["pilot"] * 4 + ["other pilot", "expired pilot", "unknown pilot", "owner", "nobody"]),
    content_type=st.sampled_from(CONTENT_TYPES),
    headers=st.sampled_from(HEADERS),
)


@pytest.fixture
def compared(sample: SampleData, monkeypatch: pytest.MonkeyPatch) -> Alike:
    def draw_alike() -> None:
        monkeypatch.setattr("matching.api.views.CHANCE", Random(1))
        for appointments in ("retry_after", "retry_after_likely"):
            monkeypatch.setattr(f"matching.services.retry_after.{appointments}", RetryAfter())
        likely_work = LikelyWork()
        for module in ("match", "retry_after"):
            monkeypatch.setattr(f"matching.services.{module}.likely_work", likely_work)

    stop_clock()
    minutes = timedelta(minutes=20)
    return alike(
        {
            "pilot": factories.make_pilot_token(sample.pilot),
            "old pilot": factories.make_pilot_token(sample.pilot, lifetime=minutes),
            "expired pilot": factories.make_pilot_token(sample.pilot, lifetime=-minutes),
            "other pilot": factories.make_pilot_token(factories.make_pilot(vo=sample.vo)),
            "unknown pilot": factories.make_pilot_token(Pilot(pk=sample.pilot.pk + 1000)),
            "owner": factories.make_token(sample.alice),
        },
        before_each=draw_alike,
    )


def arrange(sample: SampleData, state: State, *, now: datetime) -> None:
    """Store the rows of *state*."""
    status = PilotStatus.WAITING if state.pilot["ended_at"] is None else PilotStatus.LOST
    Pilot.objects.filter(pk=sample.pilot.pk).update(**columns(state.pilot, now=now), status=status)
    Site.objects.update(**state.site)
    Queue.objects.filter(pk=sample.queue.pk).update(**state.queue)
    for description in state.jobs:
        factories.make_job(owner=sample.alice, group=sample.prod, **description)


@EXAMPLES
@given(state=STATES, requests=st.lists(ORDINARY, min_size=1, max_size=3))
def test_what_pilots_send_is_answered_and_done_alike(
    compared: Alike, sample: SampleData, state: State, requests: Sequence[Sent]
) -> None:
    compared(partial(arrange, sample, state, now=database_now()), requests)


@EXAMPLES
@given(state=STATES, requests=st.lists(HOSTILE, min_size=1, max_size=3))
def test_whatever_is_sent_is_answered_and_done_alike(
    compared: Alike, sample: SampleData, state: State, requests: Sequence[Sent]
) -> None:
    compared(partial(arrange, sample, state, now=database_now()), requests)
