"""Sites, computing elements, queues, storage and what describes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from resources.domain.enums import PayloadIdentity, PilotType, RequirementKind, ResourceState, ThrottlePolicy
from resources.models import (
    ComputingElement,
    Downtime,
    Platform,
    Queue,
    Replica,
    RequirementDefinition,
    Site,
    StorageElement,
)
from tests.factories.names import unique_name
from wms.accounts.models import VO
from wms.kernel.secrets import encrypt


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
        name=name or f"LCG.{unique_name('site')}.org",
        state=state,
        state_until=state_until,
        parameters=dict(parameters or {}),
        vo_parameters={vo: dict(values) for vo, values in (vo_parameters or {}).items()},
    )
    if vos:
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
        name=name or f"{unique_name('ce')}.org",
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
    setup: str = "",
    max_waiting_pilots: int = 10,
    max_pilots: int = 100,
    state: ResourceState = ResourceState.ACTIVE,
    state_until: datetime | None = None,
    parameters: Mapping[str, object] | None = None,
    vo_parameters: Mapping[str, Mapping[str, object]] | None = None,
) -> Queue:
    return Queue.objects.create(
        name=name or unique_name("queue"),
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
        setup=setup,
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
        name=name or unique_name("se"),
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
    name = name or unique_name("platform")
    return Platform.objects.create(name=name, runs=sorted({name, *runs}))


def make_requirement_definition(
    *, name: str, kind: RequirementKind, unit: str = "", vos: Sequence[VO] = ()
) -> RequirementDefinition:
    definition = RequirementDefinition.objects.create(name=name, kind=kind, unit=unit)
    if vos:
        definition.vos.set(vos)
    return definition


def make_downtime(
    level: Site | ComputingElement | Queue,
    *,
    begins_at: datetime,
    ends_at: datetime | None = None,
    reason: str = "maintenance",
) -> Downtime:
    """Return a downtime of the place, by default of two hours."""
    match level:
        case Queue():
            place: dict[str, Any] = {"site": level.ce.site, "ce": level.ce, "queue": level}
        case ComputingElement():
            place = {"site": level.site, "ce": level}
        case _:
            place = {"site": level}
    ends_at = ends_at or begins_at + timedelta(hours=2)
    return Downtime.objects.create(**place, begins_at=begins_at, ends_at=ends_at, reason=reason)
