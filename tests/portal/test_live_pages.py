"""Every live page: a change that it shows is another ETag at once, and without one it is answered with 304.

The readings that requests share are made anew for each request here; they are 0.7 s old at most, and open pages ask
every 4.2 seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from matching.models import Match
from matching.services import leases
from pilots.domain.logs import LogPart
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services import logs
from resources.domain.enums import ResourceState, ThrottlePolicy
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import Limit, TaskQueue, UsageCounter, UsageInterval
from taskqueues.services import priorities
from tests.cases import quick_cases
from tests.factories import NOW, make_ce, make_group, make_job, make_match, make_pilot, make_queue, make_user, submit
from wms.accounts import services as accounts
from wms.accounts.domain import GroupProperty, TokenScope
from wms.accounts.models import VO, Group, Invitation, User
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Accounting, Job, Sandbox
from wms.jobs.services import control, editing, transitions
from wms.kernel import liveness
from wms.kernel.models import Liveness
from wms.portal import revisions
from wms.portal.revisions import Revisions
from wms.portal.views import job, submissions
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A site with a queue and a pilot, and jobs: of Alice one that runs and one that waits, of Bob one that waits."""

    vo: VO
    group: Group
    alice: User
    bob: User
    site: Site
    ce: ComputingElement
    queue: Queue
    pilot: Pilot
    running: Job
    lease: Match
    waiting: Job
    of_bob: Job
    #: Of another VO.
    elsewhere: Job
    task_queue: TaskQueue


@pytest.fixture(autouse=True)
def read_at_once(without_readings_of_changes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the changes at each request."""
    monkeypatch.setattr(revisions, "MAX_AGE_S", 0.0)
    monkeypatch.setattr(revisions, "_revisions", Revisions())
    # Times are shown anew each minute.
    monkeypatch.setattr(job, "_TIMES_HOLD_S", 10**12)
    monkeypatch.setattr(submissions, "ANEW_AFTER_S", 10**12)


@pytest.fixture
def world(vo: VO, group: Group, alice: User, settings: pytest.FixtureRequest) -> World:
    settings.WMS_TASK_QUEUE_INDEX_MAX_AGE_S = 0.0  # type: ignore[attr-defined]
    liveness.report(liveness.BEAT)
    site = Site.objects.get(name="LCG.CERN.ch")
    ce = make_ce(name="ce01", site=site)
    queue = make_queue(name="grid", ce=ce)
    pilot = make_pilot(vo=vo, group=group, owner=alice, queue=queue)
    running = make_job(owner=alice, group=group, status=JobStatus.RUNNING, site=site, queue=queue, pilot_id=pilot.pk)
    bob = make_user(username="bob", groups=[group])
    waiting, of_bob = _submitted(alice), _submitted(bob)
    revisions.reading()  # a page counts as changed if its index is older than the first reading
    return World(
        vo=vo,
        group=group,
        alice=alice,
        bob=bob,
        site=site,
        ce=ce,
        queue=queue,
        pilot=pilot,
        running=running,
        lease=make_match(job=running, pilot=pilot, leased_at=timezone.now()),
        waiting=waiting,
        of_bob=of_bob,
        elsewhere=_submitted(make_user(groups=[make_group()])),
        task_queue=TaskQueue.objects.get(queued_jobs=waiting.pk),
    )


def _submitted(owner: User, **description: object) -> Job:
    result = submit(parse_submission({"executable": "a.sh", **description}), owner=owner, now=NOW)
    return Job.objects.get(submission=result.job_group_id)


def _move(moved: Job, status: JobStatus) -> None:
    with transaction.atomic():
        transitions.record([moved.pk], status=status, source="pilot 1", now=timezone.now())


# ---- changes ---------------------------------------------------------------------------------------------------------


def job_starts(world: World) -> None:
    _move(world.waiting, JobStatus.MATCHED)


def job_fails(world: World) -> None:
    _move(world.running, JobStatus.FAILED)


def job_is_held(world: World) -> None:
    control.apply_to_one(Action.HOLD, world.waiting.pk, by=world.alice, now=NOW)


def job_is_edited(world: World) -> None:
    editing.edit(world.waiting.pk, changes={"job_name": "other"}, by=world.alice, now=NOW)


def job_stores_output(world: World) -> None:
    content = Sandbox.objects.create(digest=64 * "a", size_bytes=1, is_archive=True, created_at=NOW)
    Job.objects.filter(pk=world.running.pk).update(output_sandbox=content)


def heartbeat_with_output(world: World) -> None:
    leases.heartbeat(world.lease.pk, usage=Usage(), tails=Tails(std_output="step 3 of 6"), acknowledged=())


def heartbeat_with_errors(world: World) -> None:
    leases.heartbeat(world.lease.pk, usage=Usage(), tails=Tails(std_error="no such file"), acknowledged=())


def heartbeat_with_usage(world: World) -> None:
    leases.heartbeat(world.lease.pk, usage=Usage(cpu_s=90.0, memory_mb=700.0), tails=NO_TAILS, acknowledged=())


def pilot_sends_its_log(world: World) -> None:
    logs.append(LogPart(offset=0, text="started\n"), pilot_id=world.pilot.pk, now=timezone.now())


def task_queue_appears(world: World) -> None:
    _submitted(world.bob, cpu_time_s=1_000_000)


def other_job_starts(world: World) -> None:
    _move(world.of_bob, JobStatus.MATCHED)
    Job.objects.filter(pk=world.of_bob.pk).update(site=world.site)


def share_changes(world: World) -> None:
    Group.objects.filter(pk=world.group.pk).update(priority=7.0)


def priorities_are_recalculated(world: World) -> None:
    TaskQueue.objects.filter(pk=world.task_queue.pk).update(priority=1e-3)
    priorities.recalculate()


def usage_is_counted(world: World) -> None:
    UsageCounter.objects.create(counted_until=world.running.submitted_at)


def usage_of_a_group_is_counted(world: World) -> None:
    now = timezone.now()
    UsageInterval.objects.create(group=world.group, cpu_segment_s=300, began_at=now, matches=1, processor_s=60)
    UsageCounter.objects.update_or_create(defaults={"counted_until": now})


def site_is_banned(world: World) -> None:
    Site.objects.filter(pk=world.site.pk).update(state=ResourceState.BANNED)


def ce_is_banned(world: World) -> None:
    ComputingElement.objects.filter(pk=world.ce.pk).update(state=ResourceState.BANNED)


def queue_drains(world: World) -> None:
    Queue.objects.filter(pk=world.queue.pk).update(state=ResourceState.DRAINING)


def queue_offers_more(world: World) -> None:
    Queue.objects.filter(pk=world.queue.pk).update(memory_mb=64_000)


def limit_is_set(world: World) -> None:
    Limit.objects.create(user=world.alice, running=1)


def throttle_is_set(world: World) -> None:
    Site.objects.filter(pk=world.site.pk).update(throttle_policy=ThrottlePolicy.MATCHES, max_matches=0)


def pilot_comes(world: World) -> None:
    make_pilot(vo=world.vo, queue=world.queue, status=PilotStatus.WAITING)


def pilot_ends(world: World) -> None:
    Pilot.objects.filter(pk=world.pilot.pk).update(status=PilotStatus.DONE, ended_at=NOW)


def accounting_runs(world: World) -> None:
    Accounting.objects.create(seen="1:1:", began_at=world.running.submitted_at, runs=1)


def token_is_made(world: World) -> None:
    accounts.issue_token(world.alice, now=timezone.now(), scope=TokenScope.MANAGE, name="x", lifetime=timedelta(days=1))


def invitation_comes(world: World) -> None:
    Invitation.objects.create(
        group=world.group,
        username="alice",
        invited_by=make_user(operator=True),
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=1),
    )


def beat_stops(_world: World) -> None:
    Liveness.objects.update(reported_at=timezone.now() - timedelta(minutes=5))


Change = Callable[[World], None]
_JOB: Final = "/jobs/{running}/?tab="
_WAITING: Final = "/jobs/{waiting}/?tab="
#: Of what may keep a job waiting.
REASONS: Final = (
    task_queue_appears, other_job_starts, share_changes, site_is_banned, ce_is_banned, queue_drains, queue_offers_more,
    limit_is_set, throttle_is_set, pilot_comes, priorities_are_recalculated, job_starts,
)  # fmt: skip
#: {page: changes that it shows}; the default suite tries the first pages, on which each kind of change is shown.
SHOWN: Final[Mapping[str, tuple[Change, ...]]] = MappingProxyType(
    {
        f"{_JOB}output": (heartbeat_with_output, job_fails),
        f"{_JOB}errors": (heartbeat_with_errors, job_fails),
        f"{_JOB}files": (job_stores_output, job_fails),
        f"{_JOB}resources": (heartbeat_with_usage, job_fails),
        f"{_JOB}pilot": (pilot_sends_its_log, job_fails),
        f"{_WAITING}description": (job_is_edited, job_is_held),
        "/task-queues/?whose=all": (task_queue_appears, usage_is_counted),
        "/pilots/": (pilot_ends,),
        "/plots/": (accounting_runs,),
        "/accounts/tokens/": (token_is_made,),
        "/accounts/groups/": (invitation_comes,),
        "/failures/": (job_fails,),
        "/jobs/?q=owner:*": (job_starts,),
        "/task-queues/": (task_queue_appears, other_job_starts, share_changes, priorities_are_recalculated, job_starts),
        "/shares/": (share_changes, usage_is_counted, job_starts, other_job_starts),
        "/": (
            job_starts, job_fails, share_changes, usage_of_a_group_is_counted, site_is_banned, ce_is_banned,
            queue_offers_more,
        ),
        "/jobs/": (job_starts, job_fails),
        "/submissions/": (job_starts,),
        "/submissions/{submission}/": (job_starts,),
        "/jobs/why/": REASONS,
        f"{_JOB}why": (job_fails,),
        f"{_JOB}description": (job_fails,),
        f"{_JOB}history": (job_fails,),
        f"{_WAITING}why": REASONS,
        f"{_WAITING}history": (site_is_banned, job_is_edited, job_is_held),
        # Without its last job, it is no more.
        "/task-queues/{task_queue}/": REASONS[:-1],
        "/sites/": (
            job_starts, other_job_starts, site_is_banned, ce_is_banned, queue_drains, throttle_is_set, pilot_comes,
            pilot_ends,
        ),
        "/sites/LCG.CERN.ch/": (
            job_starts, other_job_starts, site_is_banned, ce_is_banned, queue_drains, throttle_is_set, pilot_comes,
            queue_offers_more,
        ),
        "/accounts/": (token_is_made,),
        "/pilots/{pilot}/": (pilot_ends, job_fails),
    }
)  # fmt: skip


def _address(page: str, world: World) -> str:
    return page.format(
        running=world.running.pk,
        waiting=world.waiting.pk,
        submission=world.waiting.submission_id,
        task_queue=world.task_queue.pk,
        pilot=world.pilot.pk,
    )


class Tab:
    """An open page, as live.js keeps it up to date."""

    def __init__(self, browser: Client, address: str) -> None:
        self._browser, self._address = browser, address
        response = browser.get(address)
        assert response.status_code == HTTPStatus.OK
        self._etag = response["ETag"]

    def is_changed(self) -> bool:
        response = self._browser.get(self._address, headers={"If-None-Match": self._etag})
        self._etag = response["ETag"]
        return {HTTPStatus.OK: True, HTTPStatus.NOT_MODIFIED: False}[HTTPStatus(response.status_code)]


@pytest.mark.parametrize("page", quick_cases(SHOWN, quick=6))
def test_a_change_that_a_page_shows_is_another_etag_and_nothing_is_304(page: str, world: World, portal: Client) -> None:
    tab = Tab(portal, _address(page, world))
    assert not tab.is_changed()
    for change in (beat_stops, *SHOWN[page]):
        if change is job_fails and Job.objects.get(pk=world.running.pk).status != JobStatus.RUNNING:
            continue
        change(world)
        assert tab.is_changed(), change.__name__
        assert not tab.is_changed(), change.__name__
    # What concerns others only is shown nowhere.
    _move(world.elsewhere, JobStatus.MATCHED)
    assert not tab.is_changed()


def test_usage_that_changes_no_share_as_shown_leaves_the_home_page_as_it_is(world: World, portal: Client) -> None:
    usage_of_a_group_is_counted(world)
    tab = Tab(portal, "/")
    assert not tab.is_changed()
    UsageInterval.objects.update(processor_s=90)
    UsageCounter.objects.update(counted_until=timezone.now())
    assert not tab.is_changed()


@pytest.mark.parametrize(
    ("page", "is_shown"),
    quick_cases(
        [
            ("/jobs/", False),
            ("/failures/", False),
            ("/jobs/?q=name:owner", False),
            ("/jobs/?q=owner:*", True),
            ("/jobs/?q=OWNER:bob", True),
            ("/jobs/?q=%6fwner:*", True),
            ("/jobs/?whose=all", True),
            ("/jobs/?owner=bob", True),
        ],
        quick=4,
    ),
)
def test_a_list_of_own_jobs_is_unchanged_by_jobs_of_group_members(
    page: str, is_shown: bool, world: World, portal: Client
) -> None:
    Group.objects.filter(pk=world.group.pk).update(properties=[GroupProperty.JOB_SHARING])
    tab = Tab(portal, page)
    assert not tab.is_changed()
    other_job_starts(world)
    assert tab.is_changed() is is_shown
