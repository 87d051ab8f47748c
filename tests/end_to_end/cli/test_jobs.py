"""The commands that show and change jobs."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.end_to_end.cli.conftest import SampleData, Wms, WmsOf
from tests.factories import make_job, make_submission
from wms.client.connection import Connection
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def test_jobs_are_listed_newest_first_as_tsv_table_and_json(sample: SampleData, wms: Wms) -> None:
    done = make_job(
        owner=sample.alice, group=sample.group, status=JobStatus.DONE, site=sample.site, job_name="old",
        submitted_at=timezone.now() - timedelta(minutes=5),
    )  # fmt: skip
    Job.objects.filter(pk=done.pk).update(minor_status="\x1b[31mred")
    waiting = make_job(owner=sample.alice, group=sample.group, job_name="new", submitted_at=timezone.now())
    newest, oldest = wms("list").rows
    assert newest[:5] == [str(waiting.pk), "Waiting", "new", "", "alice"]
    assert oldest[:5] == [str(done.pk), "Done", "old", "LCG.CERN.ch", "alice"]
    assert oldest[5].startswith(f"{done.submitted_at:%Y-%m-%dT%H:%M:%S}")
    assert oldest[6] == "\\x1b[31mred"
    heading, *rows = wms("list", width=100).out.splitlines()
    assert heading.split() == ["ID", "STATUS", "NAME", "SITE", "OWNER", "SUBMITTED", "REASON"]
    assert "5 min ago" in rows[1]
    assert all(len(line) <= 40 for line in wms("list", width=40).out.splitlines())
    assert wms("list", "--json", "id,status").json == [
        {"id": waiting.pk, "status": "Waiting"},
        {"id": done.pk, "status": "Done"},
    ]
    assert wms("list", "--json").json[0]["job_name"] == "new"
    ran = wms("list", "--json", "id,stats")
    assert (ran.code, ran.out) == (2, "")
    assert json.loads(ran.err)["detail"].startswith('There is no field "stats" in the answer; its fields are ')


def test_filters_are_options_or_words_and_select_own_jobs(sample: SampleData, wms: Wms, wms_of: WmsOf) -> None:
    mine = make_job(owner=sample.alice, group=sample.group, job_name="sim-1", job_group="x")
    failed = make_job(owner=sample.alice, group=sample.group, status=JobStatus.FAILED, submitted_at=timezone.now())
    other = make_job(group=sample.group)
    cases: list[tuple[list[object], list[Job]]] = [
        (["--name", "sim-*"], [mine]),
        (["sim"], [mine]),
        (["name:sim-1", "status:waiting"], [mine]),
        ([mine.pk], [mine]),
        (["--status", "failed"], [failed]),
        (["status:failed,waiting", "--label", "x"], [mine]),
        (["--since", "1h"], [failed]),
        (["--before", "1h"], [mine]),
        (["owner:*"], [failed, mine]),
        (["--submission", mine.submission_id], [mine]),
    ]
    for arguments, found in cases:
        assert [row[0] for row in wms("list", *arguments).rows] == [str(job.pk) for job in found], arguments
    assert len(wms_of(sample.bob)("list").rows) == 0
    assert {row[0] for row in wms_of(sample.bob)("list", "owner:*").rows} == {
        str(job.pk) for job in (mine, failed, other)
    }


def test_a_list_reads_as_many_pages_as_its_limit_needs(sample: SampleData, wms: Wms) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    for _ in range(5):
        make_job(submission=submission, owner=sample.alice, group=sample.group, status=JobStatus.DONE)
    assert len(wms("list", "--limit", 3).rows) == 3
    ran = wms("list", "-L", 3, width=80)
    assert ran.out.splitlines()[-1] == "There are more; --limit N shows more than 3."
    assert "There are more" not in wms("list", "-L", 5, width=80).out


def test_one_job_is_shown_as_facts_and_several_as_a_table(sample: SampleData, wms: Wms) -> None:
    job = make_job(owner=sample.alice, group=sample.group, job_name="j", memory_mb=2000, arguments="a b")
    facts = dict(wms("show", job.pk).rows)
    assert facts == facts | {"id": str(job.pk), "status": "Waiting", "memory_mb": "2000", "arguments": "a b"}
    assert wms("status", job.pk, width=80).out.splitlines()[0].split() == ["id:", str(job.pk)]
    second = make_job(owner=sample.alice, group=sample.group)
    assert [row[0] for row in wms("show", f"{job.pk}-{second.pk}").rows] == [str(job.pk), str(second.pk)]
    assert wms("show", job.pk, "--json", "status,owner").json == {"status": "Waiting", "owner": "alice"}
    missing = wms("show", 10**9)
    assert (missing.code, len(missing.err.splitlines())) == (1, 1)
    assert wms("show", 10**9, "--json").json["code"] == "not_found"


def test_the_history_of_a_job_is_shown(sample: SampleData, wms: Wms) -> None:
    wms("submit", "--executable", "x")
    job = Job.objects.get()
    wms("hold", job.pk, "--because", "wrong file")
    statuses = [line.status for line in job.history.order_by("pk")]
    assert statuses[-2:] == ["Waiting", "Held"]
    rows = wms("show", job.pk, "--history").rows
    assert [row[2] for row in rows] == statuses
    assert [rows[-1][0], *rows[-1][2:]] == [str(job.pk), "Held", "wrong file", "", "alice"]
    heading, *_, last = wms("status", job.pk, "--history", width=120).out.splitlines()
    assert heading.split() == ["JOB", "AT", "STATUS", "REASON", "APPLICATION", "BY"]
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  Held ", last)
    history = wms("show", job.pk, "--history", "--json", "history").json["history"]
    assert [change["status"] for change in history] == statuses
    several = wms("show", job.pk, job.pk, "--history").rows
    assert {row[0] for row in several} == {str(job.pk)}


def test_why_explains_one_job_or_many(sample: SampleData, wms: Wms) -> None:
    job = make_job(owner=sample.alice, group=sample.group, processors=64)
    other = make_job(owner=sample.alice, group=sample.group)
    ran = wms("why", job.pk)
    assert ran.out.startswith(f"Job {job.pk}, Waiting: ")
    assert "LCG.CERN.ch / ce01 / grid\tno\trequires 64 processors; this queue offers 1" in ran.out.splitlines()
    table = wms("explain", job.pk, width=60)
    assert "CONDITION" in table.out
    assert all(len(line) <= 60 or line.startswith(("Job", "Advice", "Warning")) for line in table.out.splitlines())
    assert [row[:2] for row in wms("why", job.pk, other.pk).rows] == [
        [str(job.pk), "Waiting"],
        [str(other.pk), "Waiting"],
    ]
    assert [each["job_id"] for each in wms("why", job.pk, other.pk, "--json").json] == [job.pk, other.pk]


def test_why_explains_lists_and_without_a_word_all_waiting_jobs(sample: SampleData, wms: Wms) -> None:
    large = [make_job(owner=sample.alice, group=sample.group, processors=64, job_group="scan") for _ in range(3)]
    other = make_job(owner=sample.alice, group=sample.group)
    make_job(group=sample.group)
    rows = wms("why").rows
    assert [row[:2] for row in rows] == [["3", str(large[0].pk)], ["1", str(other.pk)]]
    assert rows[0][3].startswith("It waits because no queue that serves lhcb fits it: it requires 64 processors")
    assert [row[0] for row in wms("why", "label:scan").rows] == ["3"]
    assert wms("why", "--label", "scan", "--json", "jobs,example").json == [{"jobs": 3, "example": large[0].pk}]
    assert wms("why", "label:none", width=80).out == "None of these jobs waits.\n"


def test_ids_come_from_standard_input_as_a_list_prints_them(sample: SampleData, wms: Wms) -> None:
    jobs = [make_job(owner=sample.alice, group=sample.group, job_name=f"j{number}") for number in range(4)]
    listed = wms("list").out
    assert len(listed.splitlines()) == 4
    shown = wms("show", "-", input=listed).rows
    assert [row[0] for row in shown] == [str(job.pk) for job in reversed(jobs)]
    assert wms("kill", "-", jobs[3].pk, input=f"{jobs[0].pk}-{jobs[1].pk}\n\n").out == "3 jobs killed, 0 refused.\n"
    assert [status_of(job) for job in jobs] == ["Killed", "Killed", "Waiting", "Killed"]
    wrong = wms("kill", "-", input="ID\n")
    assert (wrong.code, wrong.err) == (
        2,
        "wms: In standard input, 'ID' is not the id of a job; give its number, such as 69.\n",
    )
    for beside in ([], ["status:waiting"]):
        assert wms("kill", "-", *beside, input="\n").err == "wms: Standard input names no job.\n"
    assert status_of(jobs[2]) == "Waiting"


def test_many_ids_are_asked_for_at_once(sample: SampleData, wms: Wms, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [make_job(owner=sample.alice, group=sample.group) for _ in range(40)]
    named, asked, get = f"{jobs[0].pk}-{jobs[-1].pk}", list[str](), Connection.get

    def counted(self: Connection, path: str, **others: Any) -> Any:
        asked.append(path)
        return get(self, path, **others)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "get", counted)
        rows = wms("show", named).rows
    assert [int(row[0]) for row in rows] == [job.pk for job in jobs]
    assert asked == ["/api/v1/jobs/"]
    # All that is known of each, for programs.
    assert {len(job["description"]) > 10 for job in wms("show", named, "--json").json} == {True}


@pytest.mark.parametrize(
    "command",
    [["show"], ["why"], ["output"], ["logs"], ["kill"], ["edit", "--priority", "3"]],
    ids=lambda words: words[0],
)
def test_a_missing_job_is_named(sample: SampleData, wms: Wms, command: list[str]) -> None:
    job = make_job(owner=sample.alice, group=sample.group)
    several = [job.pk] if command[0] in {"show", "why", "output"} else []
    ran = wms(*command, *several, 10**9)
    assert ran.code == 1
    assert ran.err == "wms: There is no job 1000000000, or you may not see it; an ended job may have been removed.\n"
    assert wms(*command, *several, 10**9, "--json").json["code"] == "not_found"


def status_of(job: Job) -> str:
    return str(Job.objects.values_list("status", flat=True).get(pk=job.pk))


def test_one_job_is_changed_by_its_id(sample: SampleData, wms: Wms) -> None:
    job = make_job(owner=sample.alice, group=sample.group)
    assert wms("hold", job.pk, "--because", "bad input").out == f"Job {job.pk} is held.\n"
    assert Job.objects.get(pk=job.pk).minor_status == "bad input"
    assert wms("release", job.pk).code == 0
    assert status_of(job) == "Waiting"
    assert wms("kill", job.pk, "--json").json == {"done": 1, "refused": []}
    refused = wms("hold", job.pk)
    assert refused.code == 1
    assert "Killed" in refused.err
    failed = make_job(owner=sample.alice, group=sample.group, status=JobStatus.FAILED)
    assert wms("reschedule", failed.pk).out == f"Job {failed.pk} is rescheduled.\n"
    assert status_of(failed) == "Waiting"
    assert wms("delete", job.pk).code == 0
    assert status_of(job) == "Deleted"


def test_ranges_change_possible_jobs_and_list_refusals(sample: SampleData, wms: Wms) -> None:
    jobs = [make_job(owner=sample.alice, group=sample.group) for _ in range(3)]
    done = make_job(owner=sample.alice, group=sample.group, status=JobStatus.DONE)
    ran = wms("kill", f"{jobs[0].pk}-{done.pk}")
    assert ran.code == 1
    first, *refused = ran.rows
    assert first == ["3 jobs killed, 1 refused."]
    assert refused == [[str(done.pk), "its status does not allow this"]]
    assert {status_of(job) for job in jobs} == {"Killed"}
    ran = wms("delete", "--status", "killed,done", "--json")
    assert ran.json == {"done": 4, "refused": []}


def test_a_submission_is_named_by_its_id(sample: SampleData, wms: Wms) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    jobs = [make_job(owner=sample.alice, group=sample.group, submission=submission) for _ in range(2)]
    other = make_job(owner=sample.alice, group=sample.group)
    make_submission(owner=sample.alice, group=sample.group)
    table = wms("submissions", width=100).out
    short = str(submission.pk)[:8]
    assert f"\n{short}  " in table
    assert str(submission.pk) not in table
    assert len(wms("show", f"submission:{short}").rows) == 2
    assert dict(wms("submissions", short).rows[:1])["job_group_id"] == str(submission.pk)
    for wrong, sentence in (
        ("0000", 'None of your submissions begin with "0000"; give the whole id.'),
        ("x", '"x" is not the id of a submission'),
    ):
        ran = wms("kill", "--submission", wrong)
        assert (ran.code, sentence in ran.err) == (2, True)
    assert wms("kill", "--submission", short).out == "2 jobs killed, 0 refused.\n"
    assert [status_of(job) for job in (*jobs, other)] == ["Killed", "Killed", "Waiting"]


def test_filters_change_own_jobs_unless_an_owner_is_named(sample: SampleData, wms_of: WmsOf) -> None:
    job = make_job(owner=sample.alice, group=sample.group)
    assert wms_of(sample.olga)("kill", "--status", "waiting").out == "No job matches.\n"
    assert status_of(job) == "Waiting"
    assert wms_of(sample.olga)("kill", "--status", "waiting", "--owner", "alice").code == 0
    assert status_of(job) == "Killed"


def test_changes_of_several_jobs_are_confirmed_at_a_terminal(sample: SampleData, wms: Wms) -> None:
    jobs = [make_job(owner=sample.alice, group=sample.group) for _ in range(2)]
    named = f"{jobs[0].pk}-{jobs[1].pk}"
    ran = wms("kill", named, typed="n\n")
    assert (ran.code, ran.err) == (1, "Kill 2 jobs? [y/N] wms: Nothing was changed.\n")
    assert status_of(jobs[0]) == "Waiting"
    assert wms("kill", named, typed="y\n").code == 0
    assert status_of(jobs[0]) == "Killed"
    assert "?" not in wms("delete", named, "--yes", typed="").err
    assert status_of(jobs[1]) == "Deleted"


def test_no_job_or_two_ways_of_naming_them_are_wrong_usage(sample: SampleData, wms: Wms) -> None:
    for arguments, sentence in (
        (["kill"], "Name jobs: ids"),
        (["kill", "5", "--status", "waiting"], "by ids or by filters"),
        (["kill", "statu:waiting"], 'no filter "statu"'),
        (["kill", "sim-*"], "is not the id of a job"),
        (["kill", "1-200000"], "at most 100000 jobs"),
        (["list", "--since", "yesterday"], '"yesterday" is no time'),
        (["list", "site:A", "--site", "B"], "given twice"),
    ):
        ran = wms(*arguments)
        assert ran.code == 2, arguments
        assert sentence in ran.err


def test_a_waiting_job_is_edited(sample: SampleData, wms: Wms) -> None:
    job = make_job(owner=sample.alice, group=sample.group, sites=["LCG.CERN.ch"])
    ran = wms("edit", job.pk, "--priority", 7, "--name", "better", "--any-site", "--json", "priority,job_name")
    assert ran.json == {"priority": 7, "job_name": "better"}
    changed = Job.objects.get(pk=job.pk)
    assert (changed.priority, changed.job_name, changed.description["sites"]) == (7, "better", [])
    assert wms("edit", job.pk, "--site", "LCG.CERN.ch").out == f"Job {job.pk} is changed; it is Waiting.\n"
    assert wms("edit", job.pk).code == 2
    assert wms("edit", job.pk, "--site", "A", "--any-site").code == 2
    wms("kill", job.pk)
    assert wms("edit", job.pk, "--priority", 1).code == 1
    assert json.loads(wms("edit", job.pk, "--priority", 1, "--json").err)["code"] == "not_editable"
