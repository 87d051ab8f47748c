"""A list of thirty rows needs no more queries than a list of one."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import pytest
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from matching.models import Match, PilotEfficiency
from pilots.models import BlackHole, CEHealth, Director, Pilot
from resources.domain.enums import RequirementKind, SiteTokenPurpose
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    Replica,
    RequirementDefinition,
    Site,
    SiteThrottle,
    SiteToken,
    StorageElement,
    ThrottleState,
)
from resources.services.site_tokens import issue_site_token
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests.admin.conftest import RowsOfVO
from tests.cases import quick_cases
from tests.factories import (
    NOW,
    make_black_hole,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_platform,
    make_queue,
    make_replica,
    make_requirement_definition,
    make_site,
    make_storage_element,
    make_task_queue,
    make_throttled_site,
    make_token,
    make_user,
    make_vo,
)
from tests.tables import undone
from wms.accounts.models import VO, ApiToken, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db

_numbers = count(1)


def new_job(vo_rows: RowsOfVO) -> Job:
    owner = make_user(groups=[vo_rows.group])
    return make_job(
        owner=owner,
        group=vo_rows.group,
        status=JobStatus.DONE,
        site=make_site(vos=[vo_rows.vo]),
        queue=new_queue(vo_rows),
    )


def new_ce(vo_rows: RowsOfVO) -> ComputingElement:
    return make_ce(site=make_site(vos=[vo_rows.vo]))


def new_queue(vo_rows: RowsOfVO) -> Queue:
    return make_queue(ce=new_ce(vo_rows))


def new_match(vo_rows: RowsOfVO) -> None:
    pilot = make_pilot(vo=vo_rows.vo, queue=new_queue(vo_rows))
    request_id = f"00000000-0000-4000-9000-{next(_numbers):012d}"
    Match.objects.create(job=new_job(vo_rows), pilot=pilot, request_id=request_id, leased_at=NOW, expires_at=NOW)


def new_pool(vo_rows: RowsOfVO) -> None:
    pool = SubmitPool.objects.create(
        id=f"p{next(_numbers)}", vo=vo_rows.vo, requirements={}, refreshed_at=NOW, last_used_at=NOW
    )
    pool.queues.add(vo_rows.queue)


def new_director(vo_rows: RowsOfVO) -> None:
    Director.objects.create(name=f"d{next(_numbers)}").sites.set([make_site(vos=[vo_rows.vo]), vo_rows.site])


def new_throttle(vo_rows: RowsOfVO) -> None:
    site = make_throttled_site(vos=[vo_rows.vo])
    ThrottleState.objects.create(site=site, measured_at=NOW, expires_at=NOW, room=3)


ROWS: Mapping[type[models.Model], Callable[[RowsOfVO], object]] = {
    VO: lambda vo_rows: make_vo(managers=[make_user()]),
    Group: lambda vo_rows: make_group(vo=vo_rows.vo),
    User: lambda vo_rows: make_user(groups=[vo_rows.group], default_group=make_group(vo=vo_rows.vo)),
    ApiToken: lambda vo_rows: make_token(make_user()),
    Site: lambda vo_rows: make_ce(site=make_site(vos=[vo_rows.vo])),
    ComputingElement: lambda vo_rows: make_queue(ce=new_ce(vo_rows)),
    Queue: new_queue,
    Platform: lambda vo_rows: make_platform(),
    StorageElement: lambda vo_rows: StorageElement.objects.create(name=f"se{next(_numbers)}", url="x"),
    Replica: lambda vo_rows: make_replica(
        f"/lhcb/{next(_numbers)}", vo=vo_rows.vo, storage_element=make_storage_element(name=f"disk{next(_numbers)}")
    ),
    RequirementDefinition: lambda vo_rows: make_requirement_definition(
        name=f"r{next(_numbers)}", kind=RequirementKind.SET, vos=[vo_rows.vo]
    ),
    SiteThrottle: new_throttle,
    SiteToken: lambda vo_rows: issue_site_token(
        make_site(vos=[vo_rows.vo]), purpose=SiteTokenPurpose.REGISTER, now=NOW
    ),
    TaskQueue: lambda vo_rows: make_task_queue(
        owner=make_user(groups=[vo_rows.group]), group=vo_rows.group, job_ids=[10**9 + next(_numbers)]
    ),
    SubmitPool: new_pool,
    Job: new_job,
    Pilot: lambda vo_rows: make_pilot(vo=vo_rows.vo, queue=new_queue(vo_rows)),
    PilotEfficiency: lambda vo_rows: make_pilot(vo=vo_rows.vo, queue=new_queue(vo_rows)),
    BlackHole: lambda vo_rows: make_black_hole(site=make_site(vos=[vo_rows.vo])),
    CEHealth: lambda vo_rows: CEHealth.objects.create(ce=new_ce(vo_rows)),
    Director: new_director,
    Match: new_match,
    Limit: lambda vo_rows: Limit.objects.create(
        vo=vo_rows.vo, site=make_site(), ce=new_ce(vo_rows), group=vo_rows.group, user=make_user(), running=1
    ),
}


def queries_of(client: Client, model: type[models.Model]) -> int:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
    assert response.status_code == 200
    return len(captured)


@pytest.mark.parametrize("listed", quick_cases([[Job, Limit], [*ROWS]], quick=1), ids=["two lists", "all lists"])
def test_the_number_of_queries_does_not_grow_with_the_rows(
    operator: Client, manager: Client, mine: RowsOfVO, subtests: pytest.Subtests, listed: Iterable[type[models.Model]]
) -> None:
    for model in listed:
        # Tokens are not for managers.
        clients = {"operator": operator, "manager": manager} if model is not ApiToken else {"operator": operator}
        with undone():
            for _ in range(2):  # two, for some queries are left out of a list without rows of another kind
                ROWS[model](mine)
            few = {who: queries_of(client, model) for who, client in clients.items()}
            for _ in range(28):
                ROWS[model](mine)
            for who, client in clients.items():
                with subtests.test(f"{model.__name__} by the {who}"):
                    assert queries_of(client, model) == few[who]
                    assert few[who] < 25
