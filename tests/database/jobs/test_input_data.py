"""Jobs with input data run only where all of it is, and move when it comes or goes (PIL §2.2)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from matching.queries.explain import explain
from matching.queries.invariants import violations
from resources import sql
from resources.domain.files import GivenReplica
from resources.models import Replica, ReplicaChange, Site, StorageElement
from resources.services import replicas
from taskqueues.models import QueuedJob
from tests import factories
from tests.factories import NOW
from wms.accounts.models import VO, Group, User
from wms.jobs import queries
from wms.jobs.domain.actions import Action
from wms.jobs.domain.data import WAITS_FOR_REPLICAS
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.services import control, editing, rescheduling
from wms.jobs.services.reevaluation import LAG, reevaluate
from wms.jobs.services.submission import SubmissionResult, submit

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Three sites, each with a storage element of its name; Alice submits, Olga tells where files are."""

    vo: VO
    group: Group
    alice: User
    olga: User
    sites: Mapping[str, Site]
    elements: Mapping[str, StorageElement]

    def hold(self, **where: Sequence[str]) -> None:
        """Register files: each word is one, ``a`` is /lhcb/a, with the sites that get a copy."""
        told = [
            GivenReplica(lfn=f"/lhcb/{file}", storage_element=self.elements[site].name)
            for file, sites in where.items()
            for site in sites
        ]
        replicas.register(told, vo_name="lhcb", by=self.olga)

    def lose(self, file: str, site: str = "") -> None:
        element = self.elements[site].name if site else ""
        replicas.remove([GivenReplica(lfn=f"/lhcb/{file}", storage_element=element)], vo_name="lhcb", by=self.olga)

    def submit(self, *files: str, **described: object) -> SubmissionResult:
        body = {"executable": "run.sh", "input_data": [f"/lhcb/{file}" for file in files], **described}
        return submit(parse_submission(body), owner=self.alice, now=NOW)

    def job(self, *files: str, **described: object) -> int:
        return self.submit(*files, **described).jobs[0].id


@pytest.fixture
def world() -> World:
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    sites = {name: factories.make_site(name=name, vos=[vo]) for name in ("CERN", "RAL", "PIC")}
    return World(
        vo=vo,
        group=group,
        alice=factories.make_user(username="alice", groups=[group]),
        olga=factories.make_user(operator=True),
        sites=sites,
        elements={
            name: factories.make_storage_element(name=f"{name}-disk", sites=[site]) for name, site in sites.items()
        },
    )


def sites_of(job_id: int) -> list[str] | None:
    """Return the sites of the job's task queue; None: it stands in none."""
    queued = QueuedJob.objects.select_related("task_queue").filter(pk=job_id).first()
    return None if queued is None else queued.task_queue.sites


def broken() -> list[str]:
    """Return the invariants that do not hold, but for priorities, which lag behind until they are recalculated."""
    return [each.invariant for each in violations() if "priorities" not in each.invariant]


def status_of(job_id: int) -> tuple[str, str]:
    job = Job.objects.get(pk=job_id)
    return job.status, job.minor_status


# ---- On arrival ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "described", "expected"),
    [
        (["a"], {}, ["CERN", "RAL"]),
        (["a", "b"], {}, ["RAL"]),
        (["a", "a"], {}, ["CERN", "RAL"]),
        (["a"], {"sites": ["RAL", "PIC"]}, ["RAL"]),
        (["a"], {"banned_sites": ["CERN"]}, ["RAL"]),
        (["a"], {"sites": ["CERN", "RAL"], "banned_sites": ["CERN"]}, ["RAL"]),
    ],
)
def test_a_job_waits_for_the_sites_that_hold_every_file(
    world: World, files: list[str], described: dict[str, object], expected: list[str]
) -> None:
    world.hold(a=["CERN", "RAL"], b=["RAL", "PIC"])

    result = world.submit(*files, **described)

    (job,) = result.jobs
    assert (job.status, result.warnings) == ("Waiting", [])
    assert sites_of(job.id) == expected
    description = Job.objects.get(pk=job.id).description
    assert description["sites"] == described.get("sites", [])
    assert description["banned_sites"] == described.get("banned_sites", [])


def test_a_file_that_is_nowhere_refuses_the_whole_request_and_is_named(world: World) -> None:
    world.hold(a=["CERN"])
    jobs = [{"executable": "x", "input_data": ["/lhcb/a"]}, {"executable": "x", "input_data": ["/lhcb/a", "/lhcb/b"]}]
    with pytest.raises(InvalidDescriptionError) as refused:
        submit(parse_submission({"jobs": jobs}), owner=world.alice, now=NOW)

    assert list(refused.value.errors) == ["jobs.1.input_data"]
    assert "/lhcb/b" in refused.value.errors["jobs.1.input_data"][0]
    assert "/lhcb/a" not in refused.value.errors["jobs.1.input_data"][0]
    assert not Job.objects.exists()


def test_of_many_missing_files_the_first_are_named_and_the_others_counted(world: World) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        world.submit(*(f"f{number}" for number in range(900)))

    (sentence,) = refused.value.errors["input_data"]
    assert "/lhcb/f4 and 895 more" in sentence
    assert len(sentence) < 300


def test_a_file_whose_only_storage_element_is_gone_is_nowhere(world: World) -> None:
    world.hold(a=["CERN"], b=["CERN", "RAL"])
    job_id = world.job("a")
    world.elements["CERN"].delete()
    with pytest.raises(InvalidDescriptionError) as refused:
        world.submit("a")
    assert "/lhcb/a" in refused.value.errors["input_data"][0]
    assert sites_of(world.job("b")) == ["RAL"]
    reevaluate(now=NOW)
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_files_of_another_vo_are_not_found(world: World) -> None:
    other = factories.make_vo(name="atlas")
    factories.make_replica("/lhcb/a", vo=other, storage_element=world.elements["CERN"])
    with pytest.raises(InvalidDescriptionError):
        world.submit("a")


@pytest.mark.parametrize(
    ("files", "described"),
    [(["a", "b"], {}), (["a"], {"sites": ["PIC"]}), (["a"], {"banned_sites": ["CERN"]}), (["nowhere"], {})],
)
def test_a_job_that_no_site_may_take_yet_is_checking_and_everybody_says_so(
    world: World, files: list[str], described: dict[str, object]
) -> None:
    world.hold(a=["CERN"], b=["RAL"])
    lonely = factories.make_storage_element(name="tape")
    factories.make_replica("/lhcb/nowhere", vo=world.vo, storage_element=lonely)

    result = world.submit(*files, **described)

    (job,) = result.jobs
    assert (job.status, job.task_queue) == ("Checking", None)
    assert "1 job is Checking" in result.warnings[0]
    assert status_of(job.id) == ("Checking", WAITS_FOR_REPLICAS)
    assert sites_of(job.id) is None
    history = JobHistory.objects.filter(job=job.id).order_by("pk").values_list("status", "minor_status")
    assert list(history) == [("Received", ""), ("Checking", WAITS_FOR_REPLICAS)]
    stored = queries.with_surroundings(Job.objects.filter(pk=job.id)).get()
    assert "holds all of its input data" in explain(stored, task_queue_id=None, now=NOW).summary
    assert broken() == []


def test_a_site_that_does_not_serve_the_vo_holds_nothing_for_it(world: World) -> None:
    world.hold(a=["CERN", "RAL"])
    world.sites["CERN"].vos.set([factories.make_vo()])
    assert sites_of(world.job("a")) == ["RAL"]


def test_a_parametric_description_reads_a_file_for_each_job(world: World) -> None:
    world.hold(run1=["CERN"], run2=["RAL"])
    body = {"executable": "x", "input_data": ["/lhcb/run%s"], "parameters": {"values": [1, 2]}}
    result = submit(parse_submission(body), owner=world.alice, now=NOW)
    assert [sites_of(job.id) for job in result.jobs] == [["CERN"], ["RAL"]]


def test_explain_says_that_the_sites_are_those_of_the_data(world: World) -> None:
    factories.make_queue(ce=factories.make_ce(site=world.sites["PIC"]))
    world.hold(a=["CERN"])
    job_id = world.job("a")
    stored = queries.with_surroundings(Job.objects.filter(pk=job_id)).get()
    told = explain(stored, task_queue_id=vars(stored)["task_queue_id"], now=NOW)
    assert "has all of its input data at the site CERN" in told.summary


# ---- Later -----------------------------------------------------------------------------------------------------------


def test_replicas_that_come_and_go_move_the_job_and_a_second_look_changes_nothing(world: World) -> None:
    world.hold(a=["CERN"], b=["RAL"])
    both, only_a, other = world.job("a", "b"), world.job("a"), world.job("b")
    reevaluate(now=NOW)

    world.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 2
    assert (sites_of(both), sites_of(only_a), sites_of(other)) == (["RAL"], ["CERN", "RAL"], ["RAL"])
    assert status_of(both) == ("Waiting", "")
    assert reevaluate(now=NOW) == 0

    world.lose("a", "CERN")
    world.lose("b")
    assert reevaluate(now=NOW) == 3
    assert status_of(both) == status_of(other) == ("Checking", WAITS_FOR_REPLICAS)
    assert (sites_of(both), sites_of(only_a), sites_of(other)) == (None, ["RAL"], None)
    assert broken() == []


def test_a_change_is_looked_at_once_more_for_what_was_submitted_meanwhile_and_then_forgotten(world: World) -> None:
    world.hold(a=["CERN"])
    job_id = world.job("a")
    reevaluate(now=NOW)
    world.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 1
    # As if it had been submitted by a look at replicas from before, and committed only now.
    Job.objects.filter(pk=job_id).update(input_sites=["CERN"])

    assert reevaluate(now=NOW + LAG / 2) == 0
    assert reevaluate(now=NOW + LAG + timedelta(seconds=1)) == 1
    assert not ReplicaChange.objects.exists()
    assert Job.objects.get(pk=job_id).input_sites == ["CERN", "RAL"]


def test_a_storage_element_that_changes_its_site_moves_jobs_whoever_changed_it(world: World) -> None:
    world.hold(a=["CERN"])
    job_id = world.job("a")
    reevaluate(now=NOW)

    world.sites["CERN"].storage_elements.clear()
    world.sites["PIC"].storage_elements.set([world.elements["CERN"]])
    assert reevaluate(now=NOW) == 1
    assert sites_of(job_id) == ["PIC"]
    world.sites["PIC"].storage_elements.clear()
    assert reevaluate(now=NOW) == 1
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_more_jobs_than_fit_one_run_are_moved_by_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.jobs.services.reevaluation.JOBS_AT_ONCE", 2)
    monkeypatch.setattr("wms.jobs.services.reevaluation.PAGES_OF_RUN", 2)
    world.hold(a=["CERN"])
    jobs = [world.job("a") for _ in range(5)]
    reevaluate(now=NOW)
    reevaluate(now=NOW)

    world.hold(a=["RAL"])
    assert [reevaluate(now=NOW) for _ in range(3)] == [4, 1, 0]
    assert all(sites_of(job) == ["CERN", "RAL"] for job in jobs)


def test_a_run_without_changes_asks_the_database_little(world: World, django_assert_max_num_queries: object) -> None:
    world.hold(a=["CERN"])
    for _ in range(3):
        world.job("a")
    reevaluate(now=NOW)
    reevaluate(now=NOW + 2 * LAG)
    with django_assert_max_num_queries(6):  # type: ignore[operator]
        assert reevaluate(now=NOW + 2 * LAG) == 0


def test_jobs_that_run_or_have_ended_are_left_alone(world: World) -> None:
    world.hold(a=["CERN"])
    jobs = [
        factories.make_job(owner=world.alice, group=world.group, status=status, input_data=["/lhcb/a"])
        for status in (JobStatus.RUNNING, JobStatus.DONE, JobStatus.HELD)
    ]
    world.lose("a")
    assert reevaluate(now=NOW) == 0
    assert [Job.objects.get(pk=job.pk).status for job in jobs] == ["Running", "Done", "Held"]


@pytest.mark.parametrize("look", [1, 2, 3])
def test_what_is_noted_with_a_job_is_what_chose_its_queue_whenever_a_file_goes(
    world: World, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    world.hold(a=["CERN"])
    job_id = world.job("a")
    world.hold(a=["RAL"])
    looks = iter(range(1, 100))

    def holders(vo_id: int, lfns: Collection[str]) -> Mapping[str, frozenset[int]]:
        found = sql.holders(vo_id=vo_id, lfns=lfns)
        if next(looks) == look:  # as another transaction would, that commits just now
            Replica.objects.filter(storage_element=world.elements["RAL"]).delete()
        return found

    monkeypatch.setattr("wms.jobs.services.input_data.holders", holders)
    reevaluate(now=NOW)
    assert sites_of(job_id) == Job.objects.get(pk=job_id).input_sites
    monkeypatch.undo()
    world.hold(a=["RAL"])
    reevaluate(now=NOW)
    assert sites_of(job_id) == Job.objects.get(pk=job_id).input_sites == ["CERN", "RAL"]


def test_a_job_that_waited_before_anybody_asked_for_its_files_is_placed_by_the_first_look(world: World) -> None:
    world.hold(a=["CERN"])
    found, lost = (factories.make_job(owner=world.alice, group=world.group) for _ in range(2))
    for job, lfn in ((found, "/lhcb/a"), (lost, "/lhcb/b")):
        Job.objects.filter(pk=job.pk).update(description={**job.description, "input_data": [lfn]}, input_sites=None)
    without = world.submit(input_data=[]).jobs[0].id
    key = ("jobs", "0006_jobs_that_waited_before")
    loader = MigrationExecutor(connection).loader
    with connection.schema_editor() as editor:
        loader.get_migration(*key).apply(loader.project_state(key, at_end=False), editor)
    assert sites_of(found.pk) == []
    assert Job.objects.get(pk=without).input_sites is None

    assert reevaluate(now=NOW) == 2

    assert sites_of(found.pk) == ["CERN"]
    assert status_of(lost.pk) == ("Checking", WAITS_FOR_REPLICAS)
    assert broken() == []


# ---- Back into a queue -----------------------------------------------------------------------------------------------


def test_a_job_that_is_edited_stays_where_its_data_are(world: World) -> None:
    world.hold(a=["CERN", "RAL"])
    job_id = world.job("a")
    editing.edit(job_id, changes={"banned_sites": ["CERN"], "priority": 3}, by=world.alice, now=NOW)
    assert sites_of(job_id) == ["RAL"]
    world.hold(a=["PIC"])
    editing.edit(job_id, changes={"sites": ["PIC"], "banned_sites": []}, by=world.alice, now=NOW)
    assert sites_of(job_id) == ["PIC"]
    assert Job.objects.get(pk=job_id).priority == 3


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("changes", [{"sites": ["PIC"]}, {"banned_sites": ["RAL", "CERN"]}])
def test_a_job_is_not_sent_away_from_its_data_for_it_could_not_be_called_back(
    world: World, changes: dict[str, object], held: bool
) -> None:
    world.hold(a=["CERN", "RAL"])
    job_id = world.job("a")
    if held:
        control.apply_to_one(Action.HOLD, job_id, by=world.alice, now=NOW)
    before = Job.objects.values("status", "description", "input_sites", "priority").get(pk=job_id)
    with pytest.raises(InvalidDescriptionError) as refused:
        editing.edit(job_id, changes={**changes, "priority": 9}, by=world.alice, now=NOW)
    assert list(refused.value.errors) == [*changes]
    assert Job.objects.values("status", "description", "input_sites", "priority").get(pk=job_id) == before
    assert sites_of(job_id) == (None if held else ["CERN", "RAL"])


def test_a_job_whose_data_have_gone_meanwhile_is_checking_when_it_is_edited(world: World) -> None:
    world.hold(a=["CERN"])
    job_id = world.job("a")
    world.lose("a")
    editing.edit(job_id, changes={"sites": ["CERN"]}, by=world.alice, now=NOW)
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_a_job_that_is_released_goes_where_its_data_are_by_now(world: World) -> None:
    world.hold(a=["CERN"])
    moved, lost = world.job("a"), world.job("a")
    for job_id in (moved, lost):
        control.apply_to_one(Action.HOLD, job_id, by=world.alice, now=NOW)
    world.hold(a=["RAL"])
    control.apply_to_one(Action.RELEASE, moved, by=world.alice, now=NOW)
    assert sites_of(moved) == ["CERN", "RAL"]
    world.lose("a")
    control.apply_to_one(Action.RELEASE, lost, by=world.alice, now=NOW)
    assert status_of(lost) == ("Checking", WAITS_FOR_REPLICAS)
    assert broken() == []


def test_a_job_that_is_rescheduled_goes_where_its_data_are_by_now(world: World) -> None:
    world.hold(a=["RAL"])
    job = factories.make_job(owner=world.alice, group=world.group, status=JobStatus.RESCHEDULED, input_data=["/lhcb/a"])
    with transaction.atomic():
        rescheduling.requeue([job.pk], source="test", now=NOW)
    assert sites_of(job.pk) == ["RAL"]


@pytest.mark.parametrize("action", [Action.KILL, Action.DELETE])
def test_a_job_that_is_checking_can_be_given_up(world: World, action: Action) -> None:
    world.hold(a=["CERN"], b=["RAL"])
    job_id = world.job("a", "b")
    control.apply_to_one(action, job_id, by=world.alice, now=NOW)
    world.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 0
    assert sites_of(job_id) is None


# ---- Output data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "shared", "accepted"),
    [
        ("/lhcb/user/a/alice", False, True),
        ("/lhcb/user/a/alice/run1", False, True),
        ("/lhcb/user/a/alice2/run1", False, False),
        ("/lhcb/user/b/bob", False, False),
        ("/lhcb/data", False, False),
        ("/lhcb/{group}/run1", True, True),
        ("/lhcb/{group}/run1", False, False),
    ],
)
def test_output_goes_only_to_directories_of_ones_own(world: World, path: str, shared: bool, accepted: bool) -> None:
    group = factories.make_group(vo=world.vo, shares_jobs=shared)
    world.alice.memberships.update(group=group)
    described = {"output_data": ["x"], "output_path": path.format(group=group)}
    if accepted:
        assert world.submit(**described).jobs
        return
    with pytest.raises(InvalidDescriptionError) as refused:
        world.submit(**described)
    assert list(refused.value.errors) == ["output_path"]


def test_an_unknown_storage_element_for_output_is_refused_with_the_nearest(world: World) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        world.submit(output_data=["x"], output_se="CERN-disc")
    assert '"CERN-disk"' in refused.value.errors["output_se"][0]
