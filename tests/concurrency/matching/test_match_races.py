"""Many concurrent matchers and withdrawals, on real connections (docs/architecture.md, Matching)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone
from psycopg.pq.abc import PGresult

from matching.models import Match
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from tests.factories import LARGE_SLOT, make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user
from tests.threads import at_once
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.kernel.fast import statements

pytestmark = pytest.mark.django_db(transaction=True)


def drain(pilot: Pilot, *, seed: int) -> list[int]:
    """Match until no job fits; return the job ids."""
    chance, taken = Random(seed), []
    while leases := match(
        OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance
    ):
        taken.append(leases[0].job_id)
    return taken


def test_concurrent_pilots_never_share_a_job() -> None:
    """8 matchers and 2 withdrawers on 500 jobs; one matcher stands at a site that half of the jobs ban."""
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    banned = make_queue(ce=make_ce(site=make_site(name="LCG.Banned.org")), **LARGE_SLOT)
    elsewhere = make_queue(**LARGE_SLOT)
    for number in range(500):
        bans = ["LCG.Banned.org"] if number % 2 else []
        make_job(group=group, owner=owner, banned_sites=bans, cpu_time_s=500, priority=1 + number % 3)
    pilots = [make_pilot(vo=group.vo, queue=banned if n == 0 else elsewhere) for n in range(8)]

    def kill(*, first: int) -> list[int]:
        killed = []
        for job_id in Job.objects.order_by("-pk").values_list("pk", flat=True)[first:40:2]:
            control.apply_to_one(Action.KILL, job_id, by=owner, now=timezone.now())
            killed.append(job_id)
        return killed

    works: list[Callable[[], list[int]]] = [partial(drain, pilot, seed=n) for n, pilot in enumerate(pilots)]
    works += [partial(kill, first=0), partial(kill, first=1)]
    answers = at_once(works)

    matched = [job_id for taken in answers[:8] for job_id in taken]
    assert max(Counter(matched).values()) == 1
    assert Match.objects.count() == len(matched)
    never_matched = set(Job.objects.values_list("pk", flat=True)) - set(matched)
    assert not QueuedJob.objects.exists()
    assert not Match.objects.filter(
        pilot=pilots[0], job__stored_description__description__banned_sites=["LCG.Banned.org"]
    ).exists()
    # Whatever was not matched was killed in its queue; nothing is lost.
    assert never_matched <= {job_id for killed in answers[8:] for job_id in killed}
    assert set(Job.objects.values_list("status", flat=True)) <= {JobStatus.MATCHED, JobStatus.KILLED}


def test_a_match_survives_that_the_database_was_restarted() -> None:
    """Every connection is lost then; the thread's own is found so by the first statement of its next request."""
    group = make_group()
    owner = make_user(groups=[group])
    pilot = make_pilot(vo=group.vo)
    for _ in range(2):
        make_job(group=group, owner=owner)
    assert next_job(pilot) is not None

    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    at_once([cut])
    assert next_job(pilot) is not None
    assert Match.objects.count() == 2


def test_a_claim_whose_answer_is_lost_with_the_connection_gets_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    group = make_group()
    owner = make_user(groups=[group])
    pilot = make_pilot(vo=group.vo)
    for _ in range(2):
        make_job(group=group, owner=owner)
    ask = statements._ask_server
    asked: list[str] = []

    def lose_the_first_answer(name: str, statement: str, parameters: tuple[str | None, ...]) -> PGresult:
        result = ask(name, statement, parameters)
        if "wms_claim" in statement:
            asked.append(statement)
            if len(asked) == 1:
                connection.connection.close()
        return result

    monkeypatch.setattr(statements, "_ask_server", lose_the_first_answer)
    job_id = next_job(pilot)
    assert len(asked) == 2
    assert list(Match.objects.values_list("job_id", flat=True)) == [job_id]
    assert QueuedJob.objects.count() == 1


def next_job(pilot: Pilot) -> int | None:
    """Match once; return the id of the job."""
    leases = match(
        OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)
    )
    return leases[0].job_id if leases else None


def test_a_match_is_empty_only_when_no_job_is_left() -> None:
    """16 pilots, 16 jobs of one level: each gets one, however they collide."""
    group = make_group()
    owner = make_user(groups=[group])
    for _ in range(16):
        make_job(group=group, owner=owner)
    pilots = [make_pilot(vo=group.vo) for _ in range(16)]

    def one(pilot: Pilot) -> int:
        offer = OfferRequest(cpu_time_s=300_000)
        return len(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(pilot.pk)))

    assert at_once([partial(one, pilot) for pilot in pilots]) == [1] * 16


def test_one_request_sent_on_eight_connections_gets_one_lease() -> None:
    group = make_group()
    for _ in range(8):
        make_job(group=group)
    pilot, request_id = make_pilot(vo=group.vo), uuid4()

    def ask() -> str:
        offer = OfferRequest(cpu_time_s=300_000)
        (lease,) = match(offer, request_id=request_id, pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
        return str(lease.match_id)

    assert len(set(at_once([ask] * 8))) == 1
    assert Match.objects.count() == 1


def test_eight_claimers_empty_forty_jobs_without_early_empty_matches() -> None:
    """No false "nothing": whoever comes away empty-handed, does so after the last job was given."""
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    for number in range(120):
        make_job(group=group, owner=owner, job_type=f"type{number % 3}", priority=1)
    pilots = [make_pilot(vo=group.vo) for _ in range(8)]
    taken = at_once([partial(drain, pilot, seed=n) for n, pilot in enumerate(pilots)])
    jobs = [job_id for of_pilot in taken for job_id in of_pilot]
    assert len(jobs) == len(set(jobs)) == 120
    assert not QueuedJob.objects.exists()
    last = Match.objects.order_by("-leased_at").values_list("leased_at", flat=True)[0]
    assert Pilot.objects.filter(nothing_at__gte=last).count() == 8
