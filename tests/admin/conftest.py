"""Clients of the admin by role, and the rows that its tests need."""

from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from matching.models import Match, PilotEfficiency
from pilots.models import BlackHole, CEHealth, Director, Pilot
from resources.domain.enums import RequirementKind, SiteTokenPurpose
from resources.models import (
    ComputingElement,
    Downtime,
    Platform,
    Queue,
    Replica,
    RequirementDefinition,
    Site,
    SiteAdministrator,
    SiteThrottle,
    SiteToken,
    StorageElement,
)
from resources.services.site_tokens import issue_site_token
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests.factories import (
    NOW,
    make_black_hole,
    make_ce,
    make_downtime,
    make_group,
    make_job,
    make_pilot,
    make_platform,
    make_queue,
    make_replica,
    make_requirement_definition,
    make_site,
    make_storage_element,
    make_throttled_site,
    make_token,
    make_user,
    make_vo,
)
from tests.memos import without_brief_memos, without_readings_of_changes
from wms.accounts.models import VO, ApiToken, ConfigurationChange, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

__all__ = ["without_brief_memos", "without_readings_of_changes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfVO:
    """One row of each kind that belongs to one VO."""

    vo: VO
    group: Group
    member: User
    site: Site
    throttle: SiteThrottle
    ce: ComputingElement
    queue: Queue
    limit: Limit
    definition: RequirementDefinition
    job: Job
    pilot: Pilot
    efficiency: PilotEfficiency
    black_hole: BlackHole
    ce_health: CEHealth
    match: Match
    task_queue: TaskQueue
    submit_pool: SubmitPool
    site_token: SiteToken
    site_administrator: SiteAdministrator
    replica: Replica
    api_token: ApiToken
    change: ConfigurationChange

    @property
    def downtime(self) -> Downtime:
        """The downtime that the tests of the admin find at the site; others declare their own."""
        return self.site.downtimes.get()


def make_rows_of_vo(name: str) -> RowsOfVO:
    vo = make_vo(name=name)
    group = make_group(name=f"{name}_user", vo=vo)
    member = make_user(username=f"{name}_member", groups=[group], dns=[f"/CN={name}"])
    site = make_site(name=f"{name}.org", vos=[vo])
    ce = make_ce(name=f"ce.{name}.org", site=site)
    queue = make_queue(name=f"{name}_queue", ce=ce)
    make_job(owner=member, group=group)
    running = make_job(owner=member, group=group, status=JobStatus.RUNNING, site=site, queue=queue)
    pilot = make_pilot(vo=vo, queue=queue)
    match = Match.objects.create(
        job=running, pilot=pilot, request_id=vo_uuid(vo), queue=queue, leased_at=NOW, expires_at=NOW
    )
    pool = SubmitPool.objects.create(
        id=f"{vo.pk:064d}", vo=vo, requirements={"memory": 4000}, refreshed_at=NOW, last_used_at=NOW
    )
    issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=NOW)
    make_token(member)
    throttled = make_throttled_site(name=f"busy.{name}.org", vos=[vo])
    return RowsOfVO(
        vo=vo,
        group=group,
        member=member,
        site=site,
        throttle=SiteThrottle.objects.get(pk=throttled.pk),
        ce=ce,
        queue=queue,
        limit=Limit.objects.create(vo=vo, running=5),
        definition=make_requirement_definition(name=f"{name}Memory", kind=RequirementKind.CAPACITY, vos=[vo]),
        job=running,
        pilot=pilot,
        efficiency=PilotEfficiency.objects.get(pk=pilot.pk),
        black_hole=make_black_hole(site=site),
        ce_health=CEHealth.objects.create(ce=ce, trouble="It does not answer", failures=3),
        match=match,
        task_queue=TaskQueue.objects.get(vo=vo),
        submit_pool=pool,
        site_token=SiteToken.objects.get(site=site),
        site_administrator=SiteAdministrator.objects.create(
            site=throttled, user=make_user(username=f"{name}_administrator")
        ),
        replica=make_replica(f"/{name}/a", vo=vo, storage_element=make_storage_element(name=f"storage{vo.pk}")),
        api_token=ApiToken.objects.get(user=member),
        change=ConfigurationChange.objects.get(row_type="resources.site", row_id=str(site.pk)),
    )


def vo_uuid(vo: VO) -> str:
    return f"00000000-0000-4000-8000-{vo.pk:012d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Rows that belong to no VO."""

    site: Site
    platform: Platform
    storage_element: StorageElement
    director: Director


@pytest.fixture(scope="module")
def rows_of_lhcb(rows_of_module: None) -> RowsOfVO:
    return _with_downtime(make_rows_of_vo("lhcb"))


@pytest.fixture
def mine(rows_of_lhcb: RowsOfVO, db: None) -> RowsOfVO:
    return deepcopy(rows_of_lhcb)


@pytest.fixture
def theirs() -> RowsOfVO:
    return _with_downtime(make_rows_of_vo("atlas"))


def _with_downtime(rows: RowsOfVO) -> RowsOfVO:
    make_downtime(rows.site, begins_at=NOW - timedelta(days=2))
    return rows


@pytest.fixture
def shared(mine: RowsOfVO) -> Shared:
    return Shared(
        site=make_site(name="shared.org"),
        platform=make_platform(name="x86_64-el9"),
        storage_element=make_storage_element(name="CERN-DST", url="https://example.org/", vos=[mine.vo]),
        director=Director.objects.create(name="everywhere"),
    )


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def manager(mine: RowsOfVO) -> Client:
    """Return the client of Bob, who manages lhcb."""
    return client_of(make_user(username="bob", staff=True, manages=[mine.vo]))


@pytest.fixture
def operator() -> Client:
    return client_of(make_user(username="olivia", staff=True, operator=True))


@pytest.fixture
def superuser() -> Client:
    return client_of(make_user(username="root", staff=True, superuser=True))


# ---- forms -----------------------------------------------------------------------------------------------------------

NO_INVITATIONS = {"invitations-TOTAL_FORMS": "0", "invitations-INITIAL_FORMS": "0"}
NO_MEMBERSHIPS = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0", **NO_INVITATIONS}
NO_DNS = {"dns-TOTAL_FORMS": "0", "dns-INITIAL_FORMS": "0"}


def change(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def add(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")


def changelist(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200, "the form was accepted"
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


def act(client: Client, row: Any, action: str, **others: str) -> Any:
    return client.post(changelist(type(row)), {"action": action, "_selected_action": [str(row.pk)], **others})
