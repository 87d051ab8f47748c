"""Factories of rows for tests: plain functions that build only rows which the constraints accept.

Everything has a default; names that must be unique are numbered (``vo1``, ``vo2``, …).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from django.contrib.auth.hashers import make_password
from django.db import transaction

from matching.models import Match
from pilots.domain.pilot import ENDED, PilotStatus
from pilots.models import BlackHole, Pilot
from pilots.services.tokens import issue_pilot_token
from resources.domain.enums import PayloadIdentity, PilotType, RequirementKind, ResourceState, ThrottlePolicy
from resources.models import ComputingElement, Platform, Queue, Replica, RequirementDefinition, Site, StorageElement
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.rounding import cpu_segment_s
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.queueing import rounding
from wms.accounts.domain import USER_TOKEN_PREFIX, GroupProperty, TokenScope, digest_of
from wms.accounts.models import VO, ApiToken, Group, Membership, User, UserDN
from wms.jobs.domain.description import as_json
from wms.jobs.domain.description import parse as parse_description
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job, Submission
from wms.jobs.services.enqueueing import put_back_in_queues
from wms.kernel.secrets import encrypt

#: A Monday; tests that pass times around use it as their "now".
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)

_numbers = count(1)


def _name(kind: str) -> str:
    return f"{kind}{next(_numbers)}"


# ---- accounts --------------------------------------------------------------------------------------------------------


def make_vo(
    *,
    name: str | None = None,
    setup: str = "Production",
    setups: Sequence[str] = (),
    managers: Sequence[User] = (),
    history_fair_share: bool = False,
    any_segment_fraction: float = 0.0,
) -> VO:
    vo = VO.objects.create(
        name=name or _name("vo"),
        setup=setup,
        setups=sorted({setup, *setups}),
        history_fair_share=history_fair_share,
        any_segment_fraction=any_segment_fraction,
    )
    vo.managers.set(managers)
    return vo


def make_group(
    *,
    name: str | None = None,
    vo: VO | None = None,
    priority: float = 1000.0,
    shares_jobs: bool = False,
    production: bool = False,
) -> Group:
    properties = {GroupProperty.JOB_SHARING: shares_jobs, GroupProperty.PRODUCTION: production}
    return Group.objects.create(
        name=name or _name("group"),
        vo=vo or make_vo(),
        priority=priority,
        properties=[name for name, has in properties.items() if has],
    )


def make_user(
    *,
    username: str | None = None,
    groups: Sequence[Group] = (),
    default_group: Group | None = None,
    password: str | None = None,
    dns: Sequence[str] = (),
    manages: Sequence[VO] = (),
    operator: bool = False,
    staff: bool = False,
    superuser: bool = False,
    suspended: bool = False,
) -> User:
    """Return a user; without *password* it cannot log in, which saves the time of a hash."""
    user = User.objects.create(
        username=username or _name("user"),
        password=make_password(password),
        default_group=default_group,
        operator=operator,
        is_staff=staff,
        is_superuser=superuser,
        is_active=not suspended,
    )
    for group in groups:
        Membership.objects.create(user=user, group=group)
    for dn in dns:
        UserDN.objects.create(user=user, dn=dn)
    user.managed_vos.set(manages)
    return user


def _member(owner: User | None, group: Group) -> User:
    """Return the owner, or a new one, as a member of the group, as owners of its jobs must be."""
    if owner is None:
        return make_user(groups=[group])
    Membership.objects.get_or_create(user=owner, group=group)
    return owner


def make_token(
    user: User,
    *,
    scope: TokenScope = TokenScope.MANAGE,
    expires_at: datetime | None = None,
    revoked_at: datetime | None = None,
) -> str:
    """Return a bearer token of *user*, valid by the real clock, as the API reads it, and used just now."""
    token = USER_TOKEN_PREFIX + _name("token")
    ApiToken.objects.create(
        user=user,
        digest=digest_of(token),
        scope=scope,
        last_used_at=datetime.now(tz=UTC),
        expires_at=expires_at or datetime.now(tz=UTC) + timedelta(days=1),
        revoked_at=revoked_at,
    )
    return token


# ---- resources -------------------------------------------------------------------------------------------------------


def make_site(
    *,
    name: str | None = None,
    vos: Sequence[VO] = (),
    state: ResourceState = ResourceState.ACTIVE,
    state_until: datetime | None = None,
    parameters: Mapping[str, object] | None = None,
    vo_parameters: Mapping[str, Mapping[str, object]] | None = None,
) -> Site:
    """Return a site; without *vos* it serves all VOs."""
    site = Site.objects.create(
        name=name or f"LCG.{_name('site')}.org",
        state=state,
        state_until=state_until,
        parameters=dict(parameters or {}),
        vo_parameters={vo: dict(values) for vo, values in (vo_parameters or {}).items()},
    )
    site.vos.set(vos)
    return site


def make_throttled_site(
    *, policy: ThrottlePolicy = ThrottlePolicy.LEVEL0, name: str | None = None, vos: Sequence[VO] = (), **fields: object
) -> Site:
    """Return a site with a throttle, all of whose maxima are 5; *fields* are others of its columns."""
    site = make_site(name=name, vos=vos)
    site.throttle_policy = policy
    site.max_matches = site.max_submitting_jobs = site.max_submitting_and_output_gathering_jobs = site.max_jobs = 5
    for column, value in fields.items():
        setattr(site, column, value)
    site.save()
    return site


def make_ce(
    *,
    name: str | None = None,
    site: Site | None = None,
    type: str = "local",  # noqa: A002 - the model's word
    options: Mapping[str, object] | None = None,
    pilot_types: Sequence[PilotType] = (),
    identity: PayloadIdentity = PayloadIdentity.NONE,
    state: ResourceState = ResourceState.ACTIVE,
    state_until: datetime | None = None,
    parameters: Mapping[str, object] | None = None,
    vo_parameters: Mapping[str, Mapping[str, object]] | None = None,
) -> ComputingElement:
    return ComputingElement.objects.create(
        name=name or f"{_name('ce')}.org",
        site=site or make_site(),
        type=type,
        options=dict(options or {}),
        pilot_types=list(pilot_types),
        identity=identity,
        state=state,
        state_until=state_until,
        parameters=dict(parameters or {}),
        vo_parameters={vo: dict(values) for vo, values in (vo_parameters or {}).items()},
    )


#: A slot for a pilot that holds many jobs at once.
LARGE_SLOT: Mapping[str, Any] = {"processors": 512, "memory_mb": 2**20}


def make_queue(
    *,
    name: str | None = None,
    ce: ComputingElement | None = None,
    cpu_time_s: int = 300_000,
    platforms: Sequence[str] = (),
    processors: int = 1,
    memory_mb: int = 4000,
    wall_time_s: int | None = None,
    gpus: int = 0,
    disk_mb: int = 0,
    container: bool = False,
    job_types: Sequence[str] = (),
    tags: Sequence[str] = (),
    required_tags: Sequence[str] = (),
    max_waiting_pilots: int = 10,
    max_pilots: int = 100,
    state: ResourceState = ResourceState.ACTIVE,
    state_until: datetime | None = None,
    parameters: Mapping[str, object] | None = None,
    vo_parameters: Mapping[str, Mapping[str, object]] | None = None,
) -> Queue:
    return Queue.objects.create(
        name=name or _name("queue"),
        ce=ce or make_ce(),
        cpu_time_s=cpu_time_s,
        platforms=sorted(platforms),
        processors=processors,
        memory_mb=memory_mb,
        wall_time_s=wall_time_s,
        gpus=gpus,
        disk_mb=disk_mb,
        container=container,
        job_types=sorted(job_types),
        tags=sorted({*tags, *required_tags}),
        required_tags=sorted(required_tags),
        max_waiting_pilots=max_waiting_pilots,
        max_pilots=max_pilots,
        state=state,
        state_until=state_until,
        parameters=dict(parameters or {}),
        vo_parameters={vo: dict(values) for vo, values in (vo_parameters or {}).items()},
    )


def make_storage_element(
    *,
    name: str | None = None,
    url: str = "https://storage.example.org/data",
    credential: str = "",
    for_pilots: bool = True,
    sites: Sequence[Site] = (),
    vos: Sequence[VO] | None = None,
) -> StorageElement:
    """Return a storage element of the sites; without *vos* it serves all VOs, with an empty list none."""
    element = StorageElement.objects.create(
        name=name or _name("se"),
        url=url,
        credential_encrypted=encrypt(credential) if credential else b"",
        credential_for_pilots=bool(credential) and for_pilots,
    )
    element.vos.set(VO.objects.all() if vos is None else vos)
    for site in sites:
        site.storage_elements.add(element)
    return element


def make_replica(
    lfn: str, *, vo: VO, storage_element: StorageElement, size_bytes: int | None = None, checksum: str = ""
) -> Replica:
    """Return a replica, without starting the evaluation of jobs that wait for it."""
    return Replica.objects.create(
        vo=vo, lfn=lfn, storage_element=storage_element, size_bytes=size_bytes, checksum=checksum
    )


def make_platform(*, name: str | None = None, runs: Sequence[str] = ()) -> Platform:
    """Return a platform of nodes; it always runs its own jobs."""
    name = name or _name("platform")
    return Platform.objects.create(name=name, runs=sorted({name, *runs}))


def make_requirement_definition(
    *, name: str, kind: RequirementKind, unit: str = "", vos: Sequence[VO] = ()
) -> RequirementDefinition:
    definition = RequirementDefinition.objects.create(name=name, kind=kind, unit=unit)
    definition.vos.set(vos)
    return definition


# ---- task queues -----------------------------------------------------------------------------------------------------


def make_task_queue(
    *,
    owner: User | None = None,
    group: Group | None = None,
    setup: str | None = None,
    cpu_time_s: int = 300_000,
    submit_pools: Sequence[str] = (),
    pilot_types: Sequence[str] = (),
    sites: Sequence[str] = (),
    banned_sites: Sequence[str] = (),
    grid_ces: Sequence[str] = (),
    grid_middlewares: Sequence[str] = (),
    platforms: Sequence[str] = (),
    job_type: str = "User",
    tags: Sequence[str] = (),
    processors: int = 1,
    memory_mb: int = 0,
    wall_time_s: int = 0,
    gpus: int = 0,
    disk_mb: int = 0,
    container: bool = False,
    software: Sequence[str] = (),
    priority: float = 1.0,
    job_ids: Sequence[int] = (),
    user_priority: int = 1,
) -> TaskQueue:
    """Return a task queue with the waiting jobs *job_ids*, which need not exist."""
    group = group or make_group()
    owner = _member(owner, group)
    definition = QueueDefinition(
        owner_id=owner.pk,
        group_id=group.pk,
        vo_id=group.vo_id,
        setup=setup or group.vo.setup,
        cpu_time_s=cpu_time_s,
        submit_pools=tuple(sorted(submit_pools)),
        pilot_types=tuple(sorted(pilot_types)),
        sites=tuple(sorted(sites)),
        banned_sites=tuple(sorted(banned_sites)),
        grid_ces=tuple(sorted(grid_ces)),
        grid_middlewares=tuple(sorted(grid_middlewares)),
        platforms=tuple(sorted(platforms)),
        job_type=job_type,
        tags=tuple(sorted(tags)),
        processors=processors,
        memory_mb=memory_mb,
        wall_time_s=wall_time_s,
        gpus=gpus,
        disk_mb=disk_mb,
        container=container,
        software=tuple(sorted(software)),
    )
    task_queue = TaskQueue.objects.create(
        **asdict(definition), signature=definition.signature(), priority=priority, created_at=NOW
    )
    for job_id in job_ids:
        make_queued_job(job_id=job_id, task_queue=task_queue, user_priority=user_priority)
    return task_queue


def make_queued_job(
    *, job_id: int | None = None, task_queue: TaskQueue | None = None, user_priority: int = 1
) -> QueuedJob:
    return QueuedJob.objects.create(
        job_id=job_id or next(_numbers), task_queue=task_queue or make_task_queue(), user_priority=user_priority
    )


# ---- jobs ------------------------------------------------------------------------------------------------------------


def make_submission(*, owner: User | None = None, group: Group | None = None) -> Submission:
    group = group or make_group()
    return Submission.objects.create(owner=_member(owner, group), group=group, submitted_at=NOW, body_digest=bytes(32))


def make_job(
    *,
    owner: User | None = None,
    group: Group | None = None,
    status: JobStatus = JobStatus.WAITING,
    submission: Submission | None = None,
    reschedules: int = 0,
    site: Site | None = None,
    queue: Queue | None = None,
    pilot_id: int | None = None,
    std_output_tail: str = "",
    submitted_at: datetime = NOW,
    **description: object,
) -> Job:
    """Return a job in *status*, without history; a Waiting one is in its task queue.

    Further arguments are fields of its description. No lease is made for a leased status.
    """
    group = group or (submission.group if submission else make_group())
    owner = _member(owner or (submission.owner if submission else None), group)
    wanted = parse_description({"executable": "run.sh", **description})
    job = Job.objects.create(
        submission=submission or make_submission(owner=owner, group=group),
        owner=owner,
        group=group,
        vo=group.vo,
        status=status,
        job_name=wanted.job_name,
        job_group=wanted.job_group,
        job_type=wanted.job_type,
        priority=wanted.priority,
        description={**as_json(wanted), "setup": wanted.setup or group.vo.setup},
        submit_pools=list(wanted.submit_pools),
        reschedules=reschedules,
        site=site,
        queue=queue,
        pilot_id=pilot_id,
        std_output_tail=std_output_tail,
        submitted_at=submitted_at,
        status_changed_at=submitted_at,
        ended_at=submitted_at if status in FINAL else None,
    )
    if status is JobStatus.WAITING:
        with transaction.atomic():
            put_back_in_queues([job], now=submitted_at)
    return job


# ---- pilots and leases -----------------------------------------------------------------------------------------------


def make_pilot(
    *,
    vo: VO | None = None,
    group: Group | None = None,
    owner: User | None = None,
    queue: Queue | None = None,
    site: Site | None = None,
    ce: ComputingElement | None = None,
    status: PilotStatus = PilotStatus.RUNNING,
) -> Pilot:
    """Return a pilot; with *group* a private one, without *queue* one started by hand, for *site* and *ce* if given."""
    return Pilot.objects.create(
        vo=vo or (group.vo if group else make_vo()),
        group=group,
        owner=owner,
        queue=queue,
        status=status,
        **({} if site is None else {"site": site, "ce": ce}),
        submitted_at=NOW,
        ended_at=NOW if status in ENDED else None,
    )


def make_black_hole(
    *,
    site: Site | None = None,
    host_name: str = "node1",
    found_at: datetime = NOW,
    pause: timedelta = timedelta(hours=1),
) -> BlackHole:
    """Return a black hole, a host that gets no jobs for a while; its pilots are not marked."""
    return BlackHole.objects.create(
        site=site or make_site(),
        host_name=host_name,
        found_at=found_at,
        until=found_at + pause,
        fetched=12,
        failed=11,
        reason="11 of the 12 jobs that ended here failed",
    )


def make_match(
    *,
    job: Job | None = None,
    pilot: Pilot | None = None,
    leased_at: datetime = NOW,
    ended_at: datetime | None = None,
) -> Match:
    """Return a lease of *job*; the default job's status is not changed to a leased one."""
    job = job or make_job(status=JobStatus.RUNNING)
    return Match.objects.create(
        job=job,
        pilot=pilot or make_pilot(),
        request_id=uuid4(),
        cpu_segment_s=cpu_segment_s(job.description["cpu_time_s"], segments_s=rounding().cpu_segments_s),
        leased_at=leased_at,
        expires_at=leased_at + timedelta(seconds=300),
        ended_at=ended_at,
    )


def make_pilot_token(pilot: Pilot | None = None, *, lifetime: timedelta = timedelta(hours=1)) -> str:
    """Return a token of *pilot*, valid by the real clock, as the API reads it."""
    return issue_pilot_token(pilot or make_pilot(), now=datetime.now(tz=UTC), lifetime=lifetime).token
