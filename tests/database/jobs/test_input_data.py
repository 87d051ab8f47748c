"""Jobs with input data run only at sites with all of it; a change of replicas requeues them (PIL §2.2)."""

import pytest
from django.db import transaction

from matching.domain import sentences
from matching.queries.explain.explanation import explain
from tests import factories
from tests.database.jobs.conftest import SampleData, broken, sites_of, status_of
from tests.factories import NOW, submit
from wms.jobs import queries
from wms.jobs.domain.data import WAITS_FOR_REPLICAS
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.services import control, editing, rescheduling
from wms.jobs.services.reevaluation import reevaluate

pytestmark = pytest.mark.django_db


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
    sample: SampleData, files: list[str], described: dict[str, object], expected: list[str]
) -> None:
    sample.hold(a=["CERN", "RAL"], b=["RAL", "PIC"])

    result = sample.submit(*files, **described)

    (job,) = result.jobs
    assert (job.status, result.warnings) == ("Waiting", [])
    assert sites_of(job.id) == expected
    description = Job.objects.get(pk=job.id).description
    assert description["sites"] == described.get("sites", [])
    assert description["banned_sites"] == described.get("banned_sites", [])


def test_a_file_without_replicas_refuses_the_whole_request(sample: SampleData) -> None:
    sample.hold(a=["CERN"])
    jobs = [{"executable": "x", "input_data": ["/lhcb/a"]}, {"executable": "x", "input_data": ["/lhcb/a", "/lhcb/b"]}]
    with pytest.raises(InvalidDescriptionError) as refused:
        submit(parse_submission({"jobs": jobs}), owner=sample.alice, now=NOW)

    assert list(refused.value.errors) == ["jobs.1.input_data"]
    assert "/lhcb/b" in refused.value.errors["jobs.1.input_data"][0]
    assert "/lhcb/a" not in refused.value.errors["jobs.1.input_data"][0]
    assert not Job.objects.exists()


def test_files_of_the_catalogue_in_the_sandbox_do_not_choose_the_site(sample: SampleData) -> None:
    sample.hold(a=["CERN", "RAL"], b=["PIC"])

    for input_data, expected in ([], []), (["/lhcb/a"], ["CERN", "RAL"]):
        jdl = {"executable": "bin/run.sh", "input_sandbox": ["LFN:/lhcb/b"], "input_data": input_data}
        result = submit(parse_submission(jdl), owner=sample.alice, now=NOW)
        (job,) = result.jobs
        assert (job.status, sites_of(job.id)) == ("Waiting", expected)
        (warning,) = result.warnings
        assert "neither the input sandbox nor the input data contains it" in warning


def test_an_archive_of_the_catalogue_may_contain_the_executable(sample: SampleData) -> None:
    factories.make_replica("/lhcb/b.tgz", vo=sample.vo, storage_element=factories.make_storage_element())
    job = {"executable": "bin/run.sh", "input_sandbox": ["LFN:/lhcb/b.tgz"]}
    assert submit(parse_submission(job), owner=sample.alice, now=NOW).warnings == []


def test_a_file_of_the_catalogue_in_the_sandbox_must_have_a_replica(sample: SampleData) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        submit(parse_submission({"jdl": "Executable = x; InputSandbox = LFN:/lhcb/b;"}), owner=sample.alice, now=NOW)
    (sentence,) = refused.value.errors["input_sandbox"]
    assert sentence.startswith("No replica of /lhcb/b is known to ")


def test_of_many_missing_files_the_first_are_named_and_the_others_counted(sample: SampleData) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(*(f"f{number}" for number in range(900)))

    (sentence,) = refused.value.errors["input_data"]
    assert "/lhcb/f4 and 895 more" in sentence
    assert len(sentence) < 300


def test_one_missing_file_among_a_thousand_is_named(sample: SampleData) -> None:
    names = [f"run/{number:03}" for number in range(1000)]
    sample.hold(**{name: ["CERN"] for name in names[:-1]})
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(*names)
    assert refused.value.errors["input_data"][0].startswith("No replica of /lhcb/run/999 is known to lhcb;")

    sample.hold(**{names[-1]: ["CERN", "RAL"]})
    assert sites_of(sample.job(*names)) == ["CERN"]


def test_jobs_run_at_any_site_that_holds_all_files(sample: SampleData) -> None:
    shared = factories.make_storage_element(name="shared", sites=[sample.sites["CERN"], sample.sites["PIC"]])
    sample.hold(a=["CERN", "RAL"], b=["RAL", "PIC"])
    factories.make_replica("/lhcb/b", vo=sample.vo, storage_element=shared)
    assert sites_of(sample.job("a", "b")) == ["CERN", "RAL"]


def test_a_file_of_a_removed_storage_element_has_no_replica(sample: SampleData) -> None:
    sample.hold(a=["CERN"], b=["CERN", "RAL"])
    job_id = sample.job("a")
    sample.elements["CERN"].delete()
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit("a")
    assert "/lhcb/a" in refused.value.errors["input_data"][0]
    assert sites_of(sample.job("b")) == ["RAL"]
    reevaluate(now=NOW)
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_files_of_another_vo_are_not_found(sample: SampleData) -> None:
    other = factories.make_vo(name="atlas")
    factories.make_replica("/lhcb/a", vo=other, storage_element=sample.elements["CERN"])
    with pytest.raises(InvalidDescriptionError):
        sample.submit("a")


@pytest.mark.parametrize(
    ("files", "described", "words"),
    [
        (["a", "b"], {}, "none does, though each file has a replica"),
        (["a"], {"sites": ["PIC"]}, "at CERN, where its sites"),
        (["a"], {"banned_sites": ["CERN"]}, "at CERN, where its sites"),
        (["nowhere"], {}, "none does"),
    ],
)
def test_a_job_without_a_common_site_is_checking_and_explained(
    sample: SampleData, files: list[str], described: dict[str, object], words: str
) -> None:
    sample.hold(a=["CERN"], b=["RAL"])
    lonely = factories.make_storage_element(name="tape")
    factories.make_replica("/lhcb/nowhere", vo=sample.vo, storage_element=lonely)

    result = sample.submit(*files, **described)

    (job,) = result.jobs
    assert (job.status, job.task_queue) == ("Checking", None)
    assert "1 job is Checking" in result.warnings[0]
    assert status_of(job.id) == ("Checking", WAITS_FOR_REPLICAS)
    assert sites_of(job.id) is None
    history = JobHistory.objects.filter(job=job.id).order_by("pk").values_list("status", "minor_status")
    assert list(history) == [("Received", ""), ("Checking", WAITS_FOR_REPLICAS)]
    stored = queries.with_surroundings(Job.objects.filter(pk=job.id)).get()
    summary = sentences.summary(explain(stored, task_queue_id=None, now=NOW))
    assert "holds all of its input data" in summary
    assert words in summary
    assert broken() == []


def test_a_site_that_does_not_serve_the_vo_holds_nothing_for_it(sample: SampleData) -> None:
    sample.hold(a=["CERN", "RAL"])
    sample.sites["CERN"].vos.set([factories.make_vo()])
    assert sites_of(sample.job("a")) == ["RAL"]


def test_a_parametric_description_reads_a_file_for_each_job(sample: SampleData) -> None:
    sample.hold(run1=["CERN"], run2=["RAL"])
    body = {"executable": "x", "input_data": ["/lhcb/run%s"], "parameters": {"values": [1, 2]}}
    result = submit(parse_submission(body), owner=sample.alice, now=NOW)
    assert [sites_of(job.id) for job in result.jobs] == [["CERN"], ["RAL"]]


def test_explain_names_the_sites_of_the_input_data(sample: SampleData) -> None:
    factories.make_queue(ce=factories.make_ce(site=sample.sites["PIC"]))
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    stored = queries.with_surroundings(Job.objects.filter(pk=job_id)).get()
    told = explain(stored, task_queue_id=vars(stored)["task_queue_id"], now=NOW)
    assert "has all of its input data at the site CERN" in sentences.summary(told)


# ---- Back into a queue -----------------------------------------------------------------------------------------------


def test_a_job_that_is_edited_stays_where_its_data_are(sample: SampleData) -> None:
    sample.hold(a=["CERN", "RAL"])
    job_id = sample.job("a")
    editing.edit(job_id, changes={"banned_sites": ["CERN"], "priority": 3}, by=sample.alice, now=NOW)
    assert sites_of(job_id) == ["RAL"]
    sample.hold(a=["PIC"])
    editing.edit(job_id, changes={"sites": ["PIC"], "banned_sites": []}, by=sample.alice, now=NOW)
    assert sites_of(job_id) == ["PIC"]
    assert Job.objects.get(pk=job_id).priority == 3


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("changes", [{"sites": ["PIC"]}, {"banned_sites": ["RAL", "CERN"]}])
def test_editing_sites_cannot_exclude_the_sites_of_the_data(
    sample: SampleData, changes: dict[str, object], held: bool
) -> None:
    sample.hold(a=["CERN", "RAL"])
    job_id = sample.job("a")
    if held:
        control.apply_to_one(Action.HOLD, job_id, by=sample.alice, now=NOW)
    before = Job.objects.values("status", "stored_description", "input_sites", "priority").get(pk=job_id)
    with pytest.raises(InvalidDescriptionError) as refused:
        editing.edit(job_id, changes={**changes, "priority": 9}, by=sample.alice, now=NOW)
    assert list(refused.value.errors) == [*changes]
    assert Job.objects.values("status", "stored_description", "input_sites", "priority").get(pk=job_id) == before
    assert sites_of(job_id) == (None if held else ["CERN", "RAL"])


def test_an_edited_job_whose_data_disappeared_is_checking(sample: SampleData) -> None:
    sample.hold(a=["CERN"])
    job_id = sample.job("a")
    sample.lose("a")
    editing.edit(job_id, changes={"sites": ["CERN"]}, by=sample.alice, now=NOW)
    assert status_of(job_id) == ("Checking", WAITS_FOR_REPLICAS)


def test_a_released_job_is_queued_for_the_current_sites_of_its_data(sample: SampleData) -> None:
    sample.hold(a=["CERN"])
    moved, lost = sample.job("a"), sample.job("a")
    for job_id in (moved, lost):
        control.apply_to_one(Action.HOLD, job_id, by=sample.alice, now=NOW)
    sample.hold(a=["RAL"])
    control.apply_to_one(Action.RELEASE, moved, by=sample.alice, now=NOW)
    assert sites_of(moved) == ["CERN", "RAL"]
    sample.lose("a")
    control.apply_to_one(Action.RELEASE, lost, by=sample.alice, now=NOW)
    assert status_of(lost) == ("Checking", WAITS_FOR_REPLICAS)
    assert broken() == []


def test_a_rescheduled_job_is_queued_for_the_current_sites_of_its_data(sample: SampleData) -> None:
    sample.hold(a=["RAL"])
    job = factories.make_job(
        owner=sample.alice, group=sample.group, status=JobStatus.RESCHEDULED, input_data=["/lhcb/a"]
    )
    with transaction.atomic():
        rescheduling.requeue([job.pk], source="test", now=NOW)
    assert sites_of(job.pk) == ["RAL"]


@pytest.mark.parametrize("action", [Action.KILL, Action.DELETE])
def test_a_checking_job_can_be_killed(sample: SampleData, action: Action) -> None:
    sample.hold(a=["CERN"], b=["RAL"])
    job_id = sample.job("a", "b")
    control.apply_to_one(action, job_id, by=sample.alice, now=NOW)
    sample.hold(a=["RAL"])
    assert reevaluate(now=NOW) == 0
    assert sites_of(job_id) is None


# ---- Output data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "shared", "accepted"),
    [
        ("/lhcb/user/a/alice", False, True),
        ("/lhcb/user/a/alice/run1", False, True),
        ("myjobs/output", False, True),
        ("a" * 180, False, False),
        ("/lhcb/user/a/alice2/run1", False, False),
        ("/lhcb/user/b/bob", False, False),
        ("/lhcb/data", False, False),
        ("/lhcb/{group}/run1", True, True),
        ("/lhcb/{group}/run1", False, False),
    ],
)
def test_output_paths_are_in_directories_of_the_owner(
    sample: SampleData, path: str, shared: bool, accepted: bool
) -> None:
    group = factories.make_group(vo=sample.vo, shares_jobs=shared)
    sample.alice.memberships.update(group=group)
    described = {"output_data": ["x"], "output_path": path.format(group=group)}
    if accepted:
        assert sample.submit(**described).jobs
        return
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(**described)
    assert list(refused.value.errors) == ["output_path"]


@pytest.mark.parametrize(
    ("lfn", "accepted"),
    [
        ("LFN:/lhcb/user/a/alice/run1/hist.root", True),
        ("lfn:/lhcb/user/a/alice/hist.root", True),
        ("LFN:/lhcb/user/a/alice", False),
        ("LFN:/lhcb/user/b/bob/hist.root", False),
        ("LFN:/atlas/user/a/alice/hist.root", False),
        ("LFN:/lhcb/hist.root", False),
    ],
)
def test_logical_names_of_output_are_in_directories_of_the_owner(sample: SampleData, lfn: str, accepted: bool) -> None:
    if accepted:
        (job,) = sample.submit(output_data=["*.log", lfn]).jobs
        assert Job.objects.get(pk=job.id).description["output_data"] == ["*.log", f"LFN:{lfn[4:]}"]
        return
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(output_data=["*.log", lfn])
    assert refused.value.errors == {
        "output_data": [f"{lfn} must be below /lhcb/user/a/alice; you may not write to other directories."]
    }


def test_an_unknown_storage_element_for_output_is_refused_with_the_nearest(sample: SampleData) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(output_data=["x"], output_se="CERN-disc")
    assert '"CERN-disk"' in refused.value.errors["output_se"][0]
