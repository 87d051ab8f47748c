"""Jobs with input data are requeued when replicas are added or removed, and wait for room under a full quota."""

from collections.abc import Collection, Mapping
from datetime import timedelta

import pytest

from matching.domain import sentences
from matching.queries.explain.explanation import explain
from resources import sql
from resources.models import Replica, ReplicaChange, Site
from taskqueues.models import Limit, QueuedJob
from taskqueues.services import queueing
from tests import factories
from tests.database.jobs.conftest import SampleData, broken, sites_of, status_of
from tests.factories import NOW, submit
from wms.jobs import queries
from wms.jobs.domain.data import WAITS_FOR_REPLICAS, WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.services import control
from wms.jobs.services.reevaluation import LAG, reevaluate

pytestmark = pytest.mark.django_db


def test_changed_replicas_move_the_job_once(sample: SampleData) -> None:
    sample.hold(a=["CERN"], b=["RAL"])
    both, only_a, other = sample.job("a", "b"), sample.job("a"), sample.job("b")
    reevaluate(now=NOW)

    sample.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 2
    assert (sites_of(both), sites_of(only_a), sites_of(other)) == (["RAL"], ["CERN", "RAL"], ["RAL"])
    assert status_of(both) == ("Waiting", "")
    assert reevaluate(now=NOW) == 0

    sample.lose("a", "CERN")
    sample.lose("b")
    assert reevaluate(now=NOW) == 3
    assert status_of(both) == status_of(other) == ("Checking", WAITS_FOR_REPLICAS)
    assert (sites_of(both), sites_of(only_a), sites_of(other)) == (None, ["RAL"], None)
    assert broken() == []


def test_a_given_back_job_keeps_its_delay_while_its_files_are_missing(
    sample: SampleData,
) -> None:
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    reevaluate(now=NOW)
    QueuedJob.objects.filter(pk=job_id).update(
        is_held_back=True,
        not_before=NOW + timedelta(seconds=60),
        avoided_until=NOW + timedelta(seconds=600),
        avoided_queue_ids=[7, 8],
    )
    before = queueing.held_back([job_id])
    sample.lose("a")
    reevaluate(now=NOW)
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    assert status_of(job_id)[0] == "Waiting"
    assert queueing.held_back([job_id]) == before


def test_a_replica_change_is_evaluated_twice_and_then_removed(
    sample: SampleData,
) -> None:
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    reevaluate(now=NOW)
    sample.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 1
    # As if it had been submitted by a look at replicas from before, and committed only now.
    Job.objects.filter(pk=job_id).update(input_sites=["CERN"])

    assert reevaluate(now=NOW + LAG / 2) == 0
    assert reevaluate(now=NOW + LAG + timedelta(seconds=1)) == 1
    assert not ReplicaChange.objects.exists()
    assert Job.objects.get(pk=job_id).input_sites == ["CERN", "RAL"]


def test_a_storage_element_that_changes_its_site_moves_jobs_whoever_changed_it(sample: SampleData) -> None:
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    reevaluate(now=NOW)

    sample.sites["CERN"].storage_elements.clear()
    sample.sites["PIC"].storage_elements.set([sample.elements["CERN"]])
    assert reevaluate(now=NOW) == 1
    assert sites_of(job_id) == ["PIC"]
    sample.sites["PIC"].storage_elements.clear()
    assert reevaluate(now=NOW) == 1
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_a_site_that_is_removed_or_serves_the_vo_no_more_holds_no_files(sample: SampleData) -> None:
    sample.hold(a=["CERN", "RAL", "PIC"])
    job_id = sample.job("a")
    reevaluate(now=NOW)
    sample.sites["CERN"].delete()
    reevaluate(now=NOW)
    assert sites_of(job_id) == ["PIC", "RAL"]
    sample.sites["PIC"].vos.set([factories.make_vo()])
    reevaluate(now=NOW)
    assert sites_of(job_id) == ["RAL"]


def test_a_banned_site_keeps_its_files_and_its_jobs_wait_for_it(sample: SampleData) -> None:
    factories.make_queue(ce=factories.make_ce(site=sample.sites["CERN"]))
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    Site.objects.filter(name="CERN").update(state="banned", state_reason="a fire")
    reevaluate(now=NOW)
    assert (status_of(job_id), sites_of(job_id)) == (WAITS, ["CERN"])
    stored = queries.with_surroundings(Job.objects.filter(pk=job_id)).get()
    assert "a fire" in sentences.summary(explain(stored, task_queue_id=vars(stored)["task_queue_id"], now=NOW))


def test_more_jobs_than_fit_one_run_are_moved_by_the_next(sample: SampleData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.jobs.services.reevaluation.JOBS_AT_ONCE", 2)
    monkeypatch.setattr("wms.jobs.services.reevaluation.PAGES_OF_RUN", 2)
    sample.hold(a=["CERN"])
    jobs = [sample.job("a") for _ in range(5)]
    reevaluate(now=NOW)
    reevaluate(now=NOW)

    sample.hold(a=["RAL"])
    assert [reevaluate(now=NOW) for _ in range(3)] == [4, 1, 0]
    assert all(sites_of(job) == ["CERN", "RAL"] for job in jobs)


def test_a_run_without_changes_needs_few_statements(sample: SampleData, django_assert_max_num_queries: object) -> None:
    sample.hold(a=["CERN"])
    for _ in range(3):
        sample.job("a")
    reevaluate(now=NOW)
    reevaluate(now=NOW + 2 * LAG)
    with django_assert_max_num_queries(6):  # type: ignore[operator]
        assert reevaluate(now=NOW + 2 * LAG) == 0


def test_jobs_that_run_or_have_ended_are_left_alone(sample: SampleData) -> None:
    sample.hold(a=["CERN"])
    jobs = [
        factories.make_job(owner=sample.alice, group=sample.group, status=status, input_data=["/lhcb/a"])
        for status in (JobStatus.RUNNING, JobStatus.DONE, JobStatus.HELD)
    ]
    sample.lose("a")
    assert reevaluate(now=NOW) == 0
    assert [Job.objects.get(pk=job.pk).status for job in jobs] == ["Running", "Done", "Held"]


def test_a_job_whose_file_lost_all_replicas_names_it(sample: SampleData) -> None:
    sample.hold(a=["CERN"], b=["CERN"])
    job_id = sample.job("a", "b")
    sample.elements["CERN"].delete()  # as its last replicas: nobody reads them any more
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    stored = queries.with_surroundings(Job.objects.filter(pk=job_id)).get()
    summary = sentences.summary(explain(stored, task_queue_id=None, now=NOW))
    assert summary.endswith("no replica is registered of /lhcb/b.")


@pytest.mark.parametrize("look", [1, 2, 3])
def test_the_stored_sites_of_a_job_match_its_task_queue(
    sample: SampleData, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    sample.hold(a=["RAL"])
    looks = iter(range(1, 100))

    def holders(vo_id: int, lfns: Collection[str]) -> Mapping[str, frozenset[int]]:
        found = sql.holders(vo_id=vo_id, lfns=lfns)
        if next(looks) == look:  # as another transaction would, that commits just now
            Replica.objects.filter(storage_element=sample.elements["RAL"]).delete()
        return found

    monkeypatch.setattr("wms.jobs.services.input_data.holders", holders)
    reevaluate(now=NOW)
    assert sites_of(job_id) == Job.objects.get(pk=job_id).input_sites
    monkeypatch.undo()
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    assert sites_of(job_id) == Job.objects.get(pk=job_id).input_sites == ["CERN", "RAL"]


# ---- Quotas of waiting jobs ------------------------------------------------------------------------------------------


def statuses(*job_ids: int) -> list[tuple[str, str]]:
    return [status_of(job_id) for job_id in job_ids]


WAITS = ("Waiting", "")
NO_ROOM = ("Checking", WAITS_FOR_ROOM)
NO_FILES = ("Checking", WAITS_FOR_REPLICAS)


def test_jobs_whose_files_arrive_respect_quotas_oldest_first(sample: SampleData) -> None:
    Limit.objects.create(user=sample.alice, waiting=2)
    sample.hold(a=["CERN"], b=["RAL"])
    first, second, third = (sample.job("a", "b") for _ in range(3))
    sample.hold(a=["RAL"])

    assert reevaluate(now=NOW) == 2
    assert statuses(first, second, third) == [WAITS, WAITS, NO_ROOM]
    assert (sites_of(third), Job.objects.get(pk=third).input_sites) == (None, ["RAL"])
    stored = queries.with_surroundings(Job.objects.filter(pk=third)).get()
    told = explain(stored, task_queue_id=None, now=NOW)
    assert sentences.worded(told).limits == ["at most 2 jobs of the user alice may wait"]
    assert "input data are there, but at most 2 jobs of the user alice may wait" in sentences.summary(told)
    assert reevaluate(now=NOW) == 0
    assert JobHistory.objects.filter(job=third).count() == 3

    control.apply_to_one(Action.KILL, first, by=sample.alice, now=NOW)
    assert reevaluate(now=NOW) == 1
    assert statuses(second, third) == [WAITS, WAITS]
    assert sites_of(third) == ["RAL"]
    assert broken() == []


def test_a_removed_or_raised_quota_lets_checking_jobs_wait(sample: SampleData) -> None:
    quota = Limit.objects.create(group=sample.group, waiting=1)
    other = Limit.objects.create(vo=sample.vo, job_type="Merge", waiting=1)
    sample.hold(a=["CERN"], b=["RAL"])
    jobs = [*(sample.job("a", "b") for _ in range(3)), sample.job("a", "b", job_type="Merge")]
    sample.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 1
    Limit.objects.filter(pk=quota.pk).update(waiting=2)
    assert reevaluate(now=NOW) == 1
    assert statuses(*jobs) == [WAITS, WAITS, NO_ROOM, NO_ROOM]
    quota.delete()
    assert reevaluate(now=NOW) == 2
    assert statuses(*jobs) == [WAITS] * 4
    other.delete()


def test_a_full_quota_of_one_user_does_not_delay_others(sample: SampleData) -> None:
    bob = factories.make_user(username="bob", groups=[sample.group])
    Limit.objects.create(user=sample.alice, waiting=1)
    sample.hold(a=["CERN"], b=["RAL"])
    of_alice = [sample.job("a", "b") for _ in range(2)]
    body = {"executable": "x", "input_data": ["/lhcb/a", "/lhcb/b"]}
    of_bob = submit(parse_submission(body), owner=bob, now=NOW).jobs[0].id
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    assert statuses(*of_alice, of_bob) == [WAITS, NO_ROOM, WAITS]


def test_a_job_waiting_for_quota_that_loses_its_files_is_explained(sample: SampleData) -> None:
    Limit.objects.create(user=sample.alice, waiting=1)
    sample.hold(a=["CERN"], b=["RAL"])
    first, second = sample.job("a", "b"), sample.job("a", "b")
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    assert statuses(first, second) == [WAITS, NO_ROOM]

    sample.lose("a", "RAL")
    reevaluate(now=NOW)
    assert statuses(first, second) == [NO_FILES, NO_FILES]
    assert reevaluate(now=NOW + 2 * LAG) == 0

    sample.hold(a=["RAL"])
    reevaluate(now=NOW + 2 * LAG)
    assert statuses(first, second) == [WAITS, NO_ROOM]
    control.apply_to_one(Action.DELETE, second, by=sample.alice, now=NOW)
    control.apply_to_one(Action.KILL, first, by=sample.alice, now=NOW)
    assert reevaluate(now=NOW + 2 * LAG) == 0


def test_a_job_waiting_for_quota_is_queued_at_the_current_sites(sample: SampleData) -> None:
    quota = Limit.objects.create(user=sample.alice, waiting=0)
    sample.hold(a=["CERN"], b=["RAL"])
    Limit.objects.filter(pk=quota.pk).update(waiting=1)
    job_id = sample.job("a", "b")
    Limit.objects.filter(pk=quota.pk).update(waiting=0)
    sample.hold(a=["RAL"])
    reevaluate(now=NOW)
    sample.hold(a=["PIC"], b=["PIC"])
    reevaluate(now=NOW)
    assert status_of(job_id) == NO_ROOM
    quota.delete()
    reevaluate(now=NOW)
    assert sites_of(job_id) == ["PIC", "RAL"]


def test_jobs_waiting_for_quota_are_queued_in_pages(sample: SampleData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.jobs.services.reevaluation.JOBS_AT_ONCE", 2)
    quota = Limit.objects.create(user=sample.alice, waiting=5)
    sample.hold(a=["CERN"], b=["RAL"])
    jobs = [sample.job("a", "b") for _ in range(5)]
    Limit.objects.filter(pk=quota.pk).update(waiting=0)
    sample.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 0
    Limit.objects.filter(pk=quota.pk).update(waiting=5)
    assert reevaluate(now=NOW) == 5
    assert all(sites_of(job) == ["RAL"] for job in jobs)


def test_a_job_that_waited_before_is_queued_despite_full_quotas(sample: SampleData) -> None:
    sample.hold(a=["CERN", "RAL"])
    job_id = sample.job("a")
    Limit.objects.create(user=sample.alice, waiting=0)
    sample.lose("a", "CERN")
    reevaluate(now=NOW)
    assert (status_of(job_id), sites_of(job_id)) == (WAITS, ["RAL"])
