"""Replicas that are added and removed while jobs that wait for them are submitted, changed, held and killed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from resources.domain.files import GivenReplica
from resources.models import Replica, ReplicaChange, StorageElement
from resources.services import replicas
from taskqueues.models import Limit, QueuedJob
from taskqueues.services.quotas import QuotaExceededError
from tests import factories
from tests.factories import NOW, submit
from tests.threads import at_once
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import bulk, editing
from wms.jobs.services.reevaluation import LAG, reevaluate
from wms.kernel.errors import ConflictError

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 12


def test_every_job_ends_up_where_its_files_are_whatever_else_happens_to_it() -> None:  # noqa: C901 - seven at once
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    alice, olga = factories.make_user(groups=[group]), factories.make_user(operator=True)
    for name in ("CERN", "RAL"):
        site = factories.make_site(name=name, vos=[vo])
        factories.make_storage_element(name=f"{name}-disk", sites=[site])
    fixed = [GivenReplica(lfn=f"/lhcb/{number}", storage_element="CERN-disk") for number in range(4)]
    moving = [GivenReplica(lfn=replica.lfn, storage_element="RAL-disk") for replica in fixed]
    replicas.register(fixed, vo_name=None, by=olga)
    request = parse_submission({"executable": "x", "input_data": ["/lhcb/%s"], "parameters": {"values": [0, 1, 2, 3]}})

    def submitting(number: int) -> None:
        submit(request, owner=alice, now=NOW)

    def telling(number: int) -> None:
        act = replicas.remove if number % 2 else replicas.register
        act(moving[number % 3 :], vo_name=None, by=olga)

    def holding(number: int) -> None:
        jobs = list(Job.objects.order_by("-pk").values_list("pk", flat=True)[:4])
        bulk.act_on(Action.HOLD, jobs[:3], by=alice, now=NOW)
        bulk.act_on(Action.RELEASE, jobs[:2], by=alice, now=NOW)
        bulk.act_on(Action.KILL, jobs[3:], by=alice, now=NOW)

    def changing(number: int) -> None:
        job_id = Job.objects.order_by("?").values_list("pk", flat=True).first()
        try:
            if job_id is not None:
                editing.edit(job_id, changes={"priority": number % 10}, by=alice, now=NOW)
        except ConflictError:
            pass  # held, killed or Checking

    def looking(number: int) -> None:
        reevaluate(now=NOW)

    def repeated(act: Callable[[int], None]) -> None:
        for number in range(ROUNDS):
            act(number)

    works = [submitting, telling, telling, holding, changing, looking, looking]
    at_once([partial(repeated, act) for act in works])
    for look in range(3):
        reevaluate(now=NOW + look * (LAG + timedelta(seconds=1)))

    assert not ReplicaChange.objects.exists()
    waiting = Job.objects.filter(status=JobStatus.WAITING)
    assert set(QueuedJob.objects.values_list("pk", flat=True)) == set(waiting.values_list("pk", flat=True))
    sites = dict(QueuedJob.objects.values_list("pk", "task_queue__sites"))
    holders = {lfn: _sites_of(lfn) for lfn in (replica.lfn for replica in fixed)}
    for job in waiting:
        assert sites[job.pk] == job.input_sites == holders[job.description["input_data"][0]]
    assert not Job.objects.filter(status=JobStatus.CHECKING).exists()


def _sites_of(lfn: str) -> list[str]:
    found = StorageElement.objects.filter(name__in=_elements(lfn)).values_list("sites__name", flat=True)
    return sorted(found)


def _elements(lfn: str) -> list[str]:
    return list(Replica.objects.filter(lfn=lfn).values_list("storage_element__name", flat=True))


def test_a_quota_of_waiting_jobs_holds_while_files_come_and_jobs_are_submitted_at_the_same_time() -> None:
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    alice, olga = factories.make_user(groups=[group]), factories.make_user(operator=True)
    for name in ("CERN", "RAL"):
        factories.make_storage_element(name=f"{name}-disk", sites=[factories.make_site(name=name, vos=[vo])])
    quota = Limit.objects.create(user=alice, waiting=100)
    told = [GivenReplica(lfn=f"/lhcb/{lfn}", storage_element=f"{se}-disk") for lfn, se in (("a", "CERN"), ("b", "RAL"))]
    replicas.register(told, vo_name=None, by=olga)
    apart = {"executable": "x", "input_data": ["/lhcb/a", "/lhcb/b"]}
    submit(parse_submission({"jobs": [apart] * 20}), owner=alice, now=NOW)
    Limit.objects.filter(pk=quota.pk).update(waiting=10)
    replicas.register([GivenReplica(lfn="/lhcb/b", storage_element="CERN-disk")], vo_name=None, by=olga)
    one = parse_submission({"executable": "x"})
    most: list[int] = []

    def submitting() -> None:
        for _ in range(ROUNDS):
            with suppress(QuotaExceededError):
                submit(one, owner=alice, now=NOW)
            most.append(QueuedJob.objects.count())

    def looking() -> None:
        for _ in range(ROUNDS):
            reevaluate(now=NOW)
            most.append(QueuedJob.objects.count())
            waiting = Job.objects.filter(status=JobStatus.WAITING).order_by("?").values_list("pk", flat=True)[:2]
            bulk.act_on(Action.KILL, list(waiting), by=alice, now=NOW)

    at_once([submitting, submitting, looking, looking])
    reevaluate(now=NOW)

    assert max(most) <= 10
    waiting = Job.objects.filter(status=JobStatus.WAITING)
    assert set(QueuedJob.objects.values_list("pk", flat=True)) == set(waiting.values_list("pk", flat=True))
    held_back = Job.objects.filter(status=JobStatus.CHECKING)
    assert waiting.count() == 10 or not held_back.exists()
    assert set(held_back.values_list("minor_status", flat=True)) <= {WAITS_FOR_ROOM}
