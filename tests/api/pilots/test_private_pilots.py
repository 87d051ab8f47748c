"""Private and generic pilots, from their director to their match."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from matching.models import Match
from matching.queries.restrictions import closings_now
from matching.services import job_tokens
from matching.services.expiry import expire_leases
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Director, Pilot
from pilots.services import exclusions
from pilots.services.director_cycle import run_cycle
from pilots.services.secrets import secret_of
from resources.domain.enums import PilotType
from tests import factories
from tests.cases import quick_cases
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice and Bob share the jobs of one group, and are in a second group without shared jobs."""

    vo: VO
    alone: Group
    sharing: Group
    alice: User
    bob: User


@pytest.fixture
def sample() -> SampleData:
    vo = factories.make_vo(name="lhcb")
    alone, sharing = factories.make_group(vo=vo), factories.make_group(vo=vo, shares_jobs=True)
    alice, bob = (factories.make_user(groups=[alone, sharing]) for _ in range(2))
    return SampleData(vo=vo, alone=alone, sharing=sharing, alice=alice, bob=bob)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sent_by_a_director(*, pilot_types: tuple[PilotType, ...]) -> str:
    """Run a director that sends one pilot for the waiting jobs, and register the pilot; return its token."""
    ce = factories.make_ce(pilot_types=pilot_types)
    factories.make_queue(ce=ce, **factories.LARGE_SLOT)
    now = timezone.now()
    CEHealth.objects.create(ce=ce, asked_at=now, free_slots=1)
    Director.objects.get_or_create(name="all")
    run_cycle(closings=closings_now, chance=Random(1), now=now)
    pilot = Pilot.objects.get(secret__isnull=False, queue__ce=ce)
    assert pilot.queue is not None
    place = {"vo": pilot.vo.name, "site": ce.site.name, "ce": ce.name, "queue": pilot.queue.name}
    answer = Client().post(
        "/api/v1/pilots/register/", place, content_type="application/json", headers=bearer(secret_of(pilot))
    )
    assert answer.status_code == 201, answer.content
    token: str = answer.json()["token"]
    return token


def got(token: str) -> int | None:
    """Return the job that a pilot gets; None: no job."""
    offer = {"cpu_time_s": 300_000, "memory_mb": 4000, "request_id": str(uuid4())}
    answer = Client().post("/api/v1/matches/", offer, content_type="application/json", headers=bearer(token))
    assert answer.status_code in {201, 204}, answer.content
    job: int | None = answer.json()["job"]["id"] if answer.status_code == 201 else None
    return job


Waits = Callable[[SampleData], Job]
JOBS: dict[str, Waits] = {
    "alice alone": lambda sample: factories.make_job(owner=sample.alice, group=sample.alone),
    "alice sharing": lambda sample: factories.make_job(owner=sample.alice, group=sample.sharing),
    "bob alone": lambda sample: factories.make_job(owner=sample.bob, group=sample.alone),
    "bob sharing": lambda sample: factories.make_job(owner=sample.bob, group=sample.sharing),
    "alice for generic ones": lambda sample: factories.make_job(
        owner=sample.alice, group=sample.alone, pilot_types=["generic"]
    ),
    "alice for private ones": lambda sample: factories.make_job(
        owner=sample.alice, group=sample.alone, pilot_types=["private"]
    ),
    "another group of the VO": lambda sample: factories.make_job(
        owner=sample.alice, group=factories.make_group(vo=sample.vo, shares_jobs=True)
    ),
    "another VO": lambda sample: factories.make_job(owner=sample.alice, group=factories.make_group(shares_jobs=True)),
}
GETS = {
    "alone": {"alice alone", "alice for private ones"},
    "sharing": {"alice sharing", "bob sharing"},
    "generic": {"alice alone", "alice sharing", "bob alone", "bob sharing", "alice for generic ones",
                "another group of the VO"},
}  # fmt: skip


@pytest.mark.parametrize("job", quick_cases(JOBS, quick=4))
@pytest.mark.parametrize("pilot", GETS)
def test_a_pilot_of_a_director_gets_the_jobs_that_it_was_sent_for(sample: SampleData, pilot: str, job: str) -> None:
    group = sample.sharing if pilot == "sharing" else sample.alone
    reason = factories.make_job(owner=sample.alice, group=group)
    token = sent_by_a_director(pilot_types=(PilotType.GENERIC if pilot == "generic" else PilotType.PRIVATE,))
    sent = Pilot.objects.get()
    assert (sent.group, sent.owner) == {
        "alone": (sample.alone, sample.alice), "sharing": (sample.sharing, None), "generic": (None, None),
    }[pilot]  # fmt: skip
    assert got(token) == reason.pk

    waiting = JOBS[job](sample)

    assert got(token) == (waiting.pk if job in GETS[pilot] else None)


def made_by_hand(sample: SampleData, group: Group, owner: User | None) -> str:
    return factories.make_pilot_token(factories.make_pilot(group=group, owner=owner))


@pytest.mark.parametrize("job", ["alice alone", "bob alone"])
def test_a_pilot_of_a_suspended_owner_gets_no_jobs(sample: SampleData, job: str) -> None:
    token = made_by_hand(sample, sample.alone, sample.alice)
    User.objects.filter(pk=sample.alice.pk).update(is_active=False)
    JOBS[job](sample)
    assert got(token) is None


@pytest.mark.parametrize("leaves", [True, False])
def test_former_and_suspended_members_get_no_jobs_of_the_group(sample: SampleData, leaves: bool) -> None:
    token = made_by_hand(sample, sample.sharing, sample.alice)
    first = JOBS["bob sharing"](sample)
    assert got(token) == first.pk
    if leaves:
        Membership.objects.filter(user=sample.alice, group=sample.sharing).delete()
    else:
        User.objects.filter(pk=sample.alice.pk).update(is_active=False)
    JOBS["bob sharing"](sample)

    assert got(made_by_hand(sample, sample.sharing, sample.alice)) is None


def test_jobs_of_a_former_member_wait_until_the_owner_rejoins(sample: SampleData) -> None:
    """For private and for generic pilots (ADR 39)."""
    waiting = JOBS["alice sharing"](sample)
    Membership.objects.filter(user=sample.alice, group=sample.sharing).delete()
    assert got(made_by_hand(sample, sample.sharing, sample.alice)) is None
    assert got(factories.make_pilot_token(factories.make_pilot(vo=sample.vo))) is None
    Membership.objects.create(user=sample.alice, group=sample.sharing)
    assert got(made_by_hand(sample, sample.sharing, sample.alice)) == waiting.pk


# ---- the end of credentials ------------------------------------------------------------------------------------------


def test_a_revoked_pilot_and_its_jobs_are_refused_everywhere_at_once(sample: SampleData) -> None:
    JOBS["alice alone"](sample)
    pilot = factories.make_pilot(vo=sample.vo, queue=factories.make_queue())
    token = factories.make_pilot_token(pilot)
    job = got(token)
    lease = Match.objects.get(job=job)
    of_job = job_tokens.issue(lease.pk, job_id=lease.job_id, now=timezone.now())
    assert exclusions.revoke(Pilot.objects.filter(pk=pilot.pk), by="olivia", now=timezone.now()).pilots == 1

    reported = {
        "status": {"status": "Running"}, "heartbeat": {}, "finish": {"exit_code": 0, "usage": {}},
    }  # fmt: skip
    for each in (token, of_job):
        for what, body in reported.items():
            url = f"/api/v1/matches/{lease.pk}/{what}/"
            answer = Client().post(url, body, content_type="application/json", headers=bearer(each))
            assert (answer.status_code, answer.json()["code"]) == (403, "pilot_revoked"), what
    for url in ("/api/v1/pilots/config/", "/api/v1/submit-pools/"):
        answer = Client().get(url, headers=bearer(token))
        assert (answer.status_code, answer.json()["code"]) == (403, "pilot_revoked"), url
    lease.refresh_from_db()
    assert (lease.reported_at, lease.ended_at) == (None, None)


def test_a_token_is_renewed_by_heartbeats_until_the_pilot_has_ended(sample: SampleData) -> None:
    JOBS["alice alone"](sample)
    pilot = factories.make_pilot(vo=sample.vo, queue=factories.make_queue())
    job = got(factories.make_pilot_token(pilot))
    lease = Match.objects.get(job=job)
    old = factories.make_pilot_token(pilot, lifetime=timedelta(minutes=20))

    def heartbeat() -> tuple[int, bool]:
        url = f"/api/v1/matches/{lease.pk}/heartbeat/"
        answer = Client().post(url, {}, content_type="application/json", headers=bearer(old))
        return answer.status_code, "token" in answer.json()

    assert heartbeat() == (200, True)
    Pilot.objects.update(status=PilotStatus.DONE, ended_at=timezone.now())
    assert heartbeat() == (200, False)
    expire_leases()
    assert heartbeat() == (409, False)
