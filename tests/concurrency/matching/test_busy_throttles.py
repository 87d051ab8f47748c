"""Concurrent expressions about the job: a request gets no lease only if there was none to get (ADR 29)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from matching.models import Match
from matching.services import search, site_throttle
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.site_throttle import throttle_lock
from matching.services.throttles import advertise
from pilots.models import Pilot
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_classad, of_numbers
from resources.domain.classad.patterns import compiled
from resources.domain.throttle_conditions import _ads, _reaches
from resources.models import Queue, Site, ThrottleState
from tests.concurrency.matching.test_advertisement_races import in_own_connection
from tests.factories import (
    LARGE_SLOT,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_pilot_token,
    make_queue,
    make_site,
    make_user,
)
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db(transaction=True)

IDLE = of_numbers({SUBMITTING: 0, GATHERING: 0, CURRENT: 0})
PILOTS, REQUESTS, ROOM = 16, 3, 60


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def queue(group: Group) -> Queue:
    queue = make_queue(ce=make_ce(site=make_site()), **LARGE_SLOT)
    owner = make_user(groups=[group])
    # Several task queues, of which the expression takes every second: some draws are refused, as at a real site.
    for number in range(120):
        make_job(group=group, owner=owner, cpu_time_s=500 if number % 2 else 5000, processors=1 + number % 4 // 2)
    return queue


def asks(pilot: Pilot, *, seed: int) -> list[int]:
    """Ask REQUESTS times; return the number of leases of each request."""
    chance, offer = Random(seed), OfferRequest(cpu_time_s=300_000, processors=2)
    return [
        len(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)) for _ in range(REQUESTS)
    ]


@pytest.mark.parametrize(
    "expression",
    [
        f"TARGET.CPUTime > 500 && CurMatches < {ROOM}",
        f"TARGET.CPUTime > 100 && CurMatches < {ROOM}",
        f"CurMatches < {ROOM}",
    ],
)
def test_no_pilot_gets_an_empty_match_while_there_is_room(group: Group, queue: Queue, expression: str) -> None:
    Site.objects.filter(pk=queue.ce.site_id).update(throttle_policy="custom", throttle_requirements=expression)
    advertise(queue.ce.site_id, IDLE)
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(PILOTS)]
    works: list[Callable[[], list[int]]] = [partial(asks, pilot, seed=seed) for seed, pilot in enumerate(pilots)]
    assert at_once(works) == [[1] * REQUESTS] * PILOTS
    assert Match.objects.count() == ThrottleState.objects.get().matched == PILOTS * REQUESTS


@pytest.fixture
def locked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each request use up its optimistic tries before it begins."""
    monkeypatch.setattr(site_throttle, "OPTIMISTIC_TRIES", 0)


@pytest.mark.usefixtures("locked_at_once")
@pytest.mark.parametrize("room", [10, 0])
def test_under_the_lock_exactly_the_room_is_given(group: Group, queue: Queue, room: int) -> None:
    expression = f"TARGET.CPUTime > 500 && CurMatches < {room}"
    Site.objects.filter(pk=queue.ce.site_id).update(throttle_policy="custom", throttle_requirements=expression)
    advertise(queue.ce.site_id, IDLE)
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(8)]
    works: list[Callable[[], list[int]]] = [partial(asks, pilot, seed=seed) for seed, pilot in enumerate(pilots)]
    assert sum(map(sum, at_once(works))) == Match.objects.count() == ThrottleState.objects.get().matched == room


@pytest.mark.usefixtures("locked_at_once")
def test_a_lock_timeout_is_503_and_never_204(group: Group, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_throttle, "LOCK_WAIT_S", 0.2)
    site_id = queue.ce.site_id
    Site.objects.filter(pk=site_id).update(throttle_policy="custom", throttle_requirements="TARGET.CPUTime > 500")
    advertise(site_id, IDLE)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_pilot_token(make_pilot(vo=group.vo, queue=queue))}")
    body = {"cpu_time_s": 300_000, "request_id": str(uuid4())}
    with transaction.atomic(), ThreadPoolExecutor(max_workers=1) as pool:
        ThrottleState.objects.select_for_update().get()
        asking = pool.submit(in_own_connection, lambda: client.post("/api/v1/matches/", body, format="json"))
        busy = asking.result(timeout=within(60))
    assert (busy.status_code, busy.json()["code"], busy["Retry-After"]) == (503, "throttle_busy", "2")
    assert not Match.objects.exists()
    # The same request, repeated as it was told to, gets its job.
    assert client.post("/api/v1/matches/", body, format="json").status_code == 201


def test_an_expression_is_evaluated_for_the_state_in_which_the_job_is_given(group: Group, queue: Queue) -> None:
    """The state moves while the request waits for the throttle's lock, and then refuses what was accepted before."""
    site_id = queue.ce.site_id
    expression = "TARGET.CPUTime > 100 && CurMatches < 1"
    Site.objects.filter(pk=site_id).update(throttle_policy="custom", throttle_requirements=expression)
    advertise(site_id, IDLE)
    pilot = make_pilot(vo=group.vo, queue=queue)
    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            state = ThrottleState.objects.select_for_update().get()
            asking = pool.submit(in_own_connection, partial(asks, pilot, seed=1))
            until_somebody_waits_for_a_lock(or_done=asking)
            state.matched = 1
            state.save(update_fields=["matched"])
        assert asking.result(timeout=within(60)) == [0] * REQUESTS
    assert not Match.objects.exists()


@pytest.fixture
def under_the_lock(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str]]]:
    """Return, for each time that the lock was held, the texts parsed and the statements of Django under it."""
    held: list[tuple[int, list[str]]] = []

    @contextmanager
    def watched() -> Iterator[None]:
        statements: list[str] = []

        def note(execute: Callable[..., object], sql: str, *rest: object) -> object:
            statements.append(sql)
            return execute(sql, *rest)

        with throttle_lock(), connection.execute_wrapper(note):
            before = texts_parsed()
            try:
                yield
            finally:
                held.append((texts_parsed() - before, statements))

    monkeypatch.setattr(search, "throttle_lock", watched)
    return held


def texts_parsed() -> int:
    return len(_ads) + len(_reaches) + compiled.cache_info().misses


@pytest.mark.usefixtures("locked_at_once")
@pytest.mark.parametrize("is_advertised", [False, True], ids=["a match", "an advertisement"])
def test_neither_texts_nor_jobs_are_read_while_the_lock_is_held(
    group: Group, queue: Queue, under_the_lock: list[tuple[int, list[str]]], is_advertised: bool
) -> None:
    """Only the evaluation, whose steps are bounded, is done under the lock, whatever moved the state before it."""
    site_id = queue.ce.site_id
    Site.objects.filter(pk=site_id).update(throttle_policy="custom", throttle_requirements=f"CurMatches < {ROOM}")
    text = 'CurMatches = 0; Requirements = CPUTime > 100 && regexp("^.+%s$", Owner)'
    advertise(site_id, of_classad(text % ""))
    pilot = make_pilot(vo=group.vo, queue=queue)
    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            state = ThrottleState.objects.select_for_update().get()
            asking = pool.submit(in_own_connection, partial(asks, pilot, seed=1))
            until_somebody_waits_for_a_lock(or_done=asking)
            state.matched = 1
            if is_advertised:
                state.version += 1
                state.classad = text % ".*"
            state.save()
        assert asking.result(timeout=within(60)) == [1] * REQUESTS
    for parsed, statements in under_the_lock:
        assert parsed == 0
        assert len(statements) <= 1
        assert all("taskqueues_" not in statement for statement in statements)
    assert len(under_the_lock) == REQUESTS + is_advertised
    assert any(statements for _, statements in under_the_lock)
