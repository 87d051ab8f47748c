"""A small system in which each page has something to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

from pilots.domain.logs import LogPart
from pilots.models import CEHealth, Director, DirectorDecision, DirectorRun, Pilot
from pilots.services import logs
from resources.domain.advertised_load import SUBMITTING
from resources.domain.enums import ResourceState
from resources.models import Queue, Site, ThrottleState
from resources.services.states import set_state
from taskqueues.models import Limit, QueuedJob
from taskqueues.services.priorities import set_priority
from tests.factories import (
    make_black_hole,
    make_bucket,
    make_ce,
    make_downtime,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_samples,
    make_site,
    make_submission,
    make_throttled_site,
    make_token,
    make_user,
    make_vo,
    tell_cause,
)
from tests.screenshots.pages import ISSUER, Reader
from wms.accounts.models import ConfigurationChange, Group, User
from wms.accounts.services import invite
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job, JobHistory
from wms.kernel import liveness
from wms.kernel.models import Liveness

#: {status: jobs of the large submission in it}.
SHAPE = {
    JobStatus.DONE: 14,
    JobStatus.RUNNING: 6,
    JobStatus.WAITING: 6,
    JobStatus.FAILED: 4,
    JobStatus.HELD: 1,
    JobStatus.KILLED: 1,
    JobStatus.STALLED: 1,
}
ERRORS = "Traceback (most recent call last):\n  File \"scan.py\", line 12, in <module>\nFileNotFoundError: 'grid.dat'\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The ids that stand in addresses, and the sessions of the readers."""

    ids: Mapping[str, object]
    #: {reader: name and value of the cookie}.
    cookies: Mapping[Reader, Mapping[str, str]]


def make_sample() -> Sample:
    """Create the rows, and log all readers in."""
    now = timezone.now()
    # No beat runs beside the sample; its pages would say that the background work has stopped.
    for part in (liveness.BEAT, liveness.SITES):
        Liveness.objects.create(name=part, reported_at=now + timedelta(days=1))
    vo = make_vo(name="lhcb")
    group, production = make_group(name="lhcb_user", vo=vo), make_group(name="lhcb_prod", vo=vo, shares_jobs=True)
    alice = make_user(
        username=Reader.PHYSICIST, groups=[group, production], default_group=group, dns=["/DC=org/DC=example/CN=Alice"]
    )
    User.objects.filter(pk=alice.pk).update(email="alice@example.org", first_name="Alice", last_name="Liddell")
    olga = make_user(username=Reader.OPERATOR, operator=True, superuser=True, staff=True, manages=[vo])
    mona = make_user(username=Reader.MANAGER, staff=True, manages=[vo])
    nora = make_user(username=Reader.NEWCOMER)
    wanda = make_user(username=Reader.WAITING)
    User.objects.filter(pk=wanda.pk).update(waits_since=now, first_name="Wanda", last_name="Winter")
    for user in (alice, wanda):
        SocialAccount.objects.create(user=user, provider=ISSUER, uid=user.username)
    invite(make_group(name="lhcb_mc", vo=vo), alice.username, by=olga, now=now)
    make_token(alice)
    cern = make_site(name="LCG.CERN.ch", vos=[vo])
    ral = make_throttled_site(name="LCG.RAL.uk", vos=[vo])
    _decide(ral, by=olga, now=now)
    _fill(ral, now=now)
    downtime = make_downtime(ral, begins_at=now + timedelta(days=3), reason="new disks")
    make_site(name="LCG.PIC.es", vos=[vo], state=ResourceState.BANNED)
    queue = make_queue(name="grid", ce=make_ce(name="ce01.cern.ch", site=cern))
    limit = Limit.objects.create(vo=vo, group=group, running=500, cpu_s_per_day=864_000)
    Director.objects.create(name="everywhere", private_fraction=0.25)
    make_black_hole(site=cern, host_name="node23.cern.ch", found_at=now)
    CEHealth.objects.create(ce=queue.ce, trouble="sinfo: Unable to contact slurm controller", failures=3, ask_after=now)
    pilot = _pilot(make_pilot(vo=vo, queue=queue), now=now)
    jobs = _jobs(alice, group, pilot, now=now)
    before = group.priority
    for priority, reason in ((6 * before, "a campaign"), (before, "the campaign has ended")):
        with transaction.atomic():
            set_priority(group, priority=priority, reason=reason, confirmed=(), by=olga, now=now)
    _use(jobs[JobStatus.RUNNING])
    _account(alice, group, cern, now=now)
    lease = make_match(job=jobs[JobStatus.RUNNING], pilot=pilot, leased_at=now)
    lease.queue = queue
    lease.save()
    people = {
        Reader.PHYSICIST: alice,
        Reader.NEWCOMER: nora,
        Reader.OPERATOR: olga,
        Reader.MANAGER: mona,
        Reader.WAITING: wanda,
    }
    return Sample(
        ids={
            "done": jobs[JobStatus.DONE].pk,
            "failed": jobs[JobStatus.FAILED].pk,
            "running": jobs[JobStatus.RUNNING].pk,
            "waiting": jobs[JobStatus.WAITING].pk,
            "submission": jobs[JobStatus.DONE].submission_id,
            "task_queue": QueuedJob.objects.get(pk=jobs[JobStatus.WAITING].pk).task_queue_id,
            "pilot": pilot.pk,
            "site": cern.pk,
            "site_name": cern.name,
            "ce": queue.ce.pk,
            "queue": queue.pk,
            "throttled": ral.pk,
            "limit": limit.pk,
            "downtime": downtime.pk,
            "vo": vo.pk,
            "group": group.pk,
            "user": alice.pk,
            "change": ConfigurationChange.objects.filter(row_type="accounts.group").order_by("-pk")[0].pk,
        },
        cookies={reader: _session(user) for reader, user in people.items()},
    )


def _decide(site: Site, *, by: User, now: datetime) -> None:
    """Drain a site and let it work again, and drain its computing element."""
    ce = make_queue(name="long", ce=make_ce(name="ce01.ral.uk", site=site)).ce
    until = now + timedelta(days=1)
    for level, state, reason in (
        (site, ResourceState.DRAINING, "ticket 4711"),
        (site, ResourceState.ACTIVE, ""),
        (ce, ResourceState.DRAINING, "new kernel"),
    ):
        end = until if state is ResourceState.DRAINING else None
        with transaction.atomic():
            set_state(level, state=state, reason=reason, until=end, by=by, now=now)


def _pilot(pilot: Pilot, *, now: datetime) -> Pilot:
    checks = [{"name": "python", "ok": True, "detail": "3.11"}, {"name": "disk", "ok": False, "detail": "400 MB left"}]
    Pilot.objects.filter(pk=pilot.pk).update(
        host_name="node17.cern.ch", submitted_at=now - timedelta(hours=2), node={"os": "Linux", "checks": checks}
    )
    text = "".join(f"12:00:{second:02} asked for a job\n" for second in range(40))
    logs.append(LogPart(offset=0, text=text), pilot_id=pilot.pk, now=now)
    return pilot


def _jobs(owner: User, group: Group, pilot: Pilot, *, now: datetime) -> Mapping[JobStatus, Job]:
    """Return a job of each status, of the last of two submissions."""
    make_job(owner=owner, group=group, job_name="test", submitted_at=now - timedelta(days=2), status=JobStatus.DONE)
    submission = make_submission(owner=owner, group=group)
    last: dict[JobStatus, Job] = {}
    numbered = enumerate(status for status, count in SHAPE.items() for _ in range(count))
    for number, status in numbered:
        is_waiting = status in {JobStatus.WAITING, JobStatus.HELD}
        job = make_job(
            owner=owner,
            group=group,
            submission=submission,
            status=status,
            job_name=f"scan-{number:03}",
            site=None if is_waiting or pilot.queue is None else pilot.queue.ce.site,
            queue=None if is_waiting else pilot.queue,
            pilot_id=None if is_waiting else pilot.pk,
            std_output_tail="" if is_waiting else f"point {number}\nstep 50 of 60\n",
            std_error_tail=ERRORS if status is JobStatus.FAILED else "",
            submitted_at=now - timedelta(hours=1),
        )
        if not is_waiting:
            _run(job, now=now)
        last[status] = job
    return last


def _fill(site: Site, *, now: datetime) -> None:
    """Fill the throttle of a site in part, add a limit, and let the directors decide about its queue."""
    ThrottleState.objects.create(
        site=site, advertised={SUBMITTING: 0}, measured_at=now, advertised_at=now,
        expires_at=now + timedelta(days=1), room=5, matched=3,
    )  # fmt: skip
    Limit.objects.create(site=site, running=50)
    queue = Queue.objects.get(ce__site=site)
    DirectorDecision.objects.create(ce=queue.ce, decided_at=now, queues={queue.pk: [12, 0, "throttled"]})
    DirectorRun.objects.create(pk=1, ran_at=now, running_since=now)
    CEHealth.objects.create(ce=queue.ce, asked_at=now, free_slots=40)


def _use(job: Job) -> None:
    """Add samples of the usage of a job over 44 minutes."""
    samples = [(60 * minute, 52 * minute, 500 + 7 * minute, 3 * minute) for minute in range(2, 45, 2)]
    make_samples(job, *samples, step_s=120, attempt=job.attempt)


def _account(owner: User, group: Group, site: Site, *, now: datetime) -> None:
    """Add buckets of the accounting for a day, and that of the day."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    for hour in range(24):
        begun_at = this_hour - timedelta(hours=hour)
        done = 3 + hour % 5
        make_bucket(
            owner=owner,
            group=group,
            begun_at=begun_at,
            site=site,
            started=done + 1,
            done=done,
            failed=hour % 3,
            cpu_s=2300.0 * done,
            wall_s=2640.0 * done,
        )
        make_bucket(owner=owner, group=group, begun_at=begun_at, waiting=6 + hour % 4)
    make_bucket(
        owner=owner, group=group, width=Width.DAY, begun_at=Width.DAY.begin_of(now), site=site, started=144, done=118,
        failed=23, killed=3, cpu_s=271_400.0, wall_s=311_520.0,
    )  # fmt: skip


def _run(job: Job, *, now: datetime) -> None:
    ended = now - timedelta(minutes=5) if job.status in FINAL else None
    has_failed = job.status == JobStatus.FAILED
    if has_failed:
        tell_cause(job)
    Job.objects.filter(pk=job.pk).update(
        matched_at=now - timedelta(minutes=50),
        started_at=now - timedelta(minutes=49),
        heartbeat_at=now,
        ended_at=ended,
        status_changed_at=ended or now,
        minor_status="Exited with code 2" if has_failed else "",
        exit_code=2 if has_failed else 0 if job.status == JobStatus.DONE else None,
        cpu_s=2300.0,
        wall_s=2640.0,
        max_memory_mb=812.0,
        max_disk_mb=120.0,
    )
    for minutes, status in (
        (60, JobStatus.RECEIVED),
        (60, JobStatus.WAITING),
        (50, JobStatus.MATCHED),
        (5, job.status),
    ):
        JobHistory.objects.create(
            job=job, changed_at=now - timedelta(minutes=minutes), status=status, source="alice", minor_status=""
        )


def _session(user: User) -> Mapping[str, str]:
    client = Client()
    client.force_login(user)
    return {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}
