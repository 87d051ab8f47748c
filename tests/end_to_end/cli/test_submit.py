"""`wms submit`: every form of a description, with files of this computer."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from django.db import connection

from tests.end_to_end.cli.conftest import SampleData, Wms
from tests.pace import wait_for
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Sandbox, Submission
from wms.jobs.services import canaries
from wms.kernel.clock import current_time

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a program, in a directory of its own beside descriptions."""
    path = tmp_path / "work" / "run.sh"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho hello\n")
    return path


def reference_of(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def test_options_describe_a_job(sample: SampleData, wms: Wms, script: Path) -> None:
    ran = wms(
        *("submit", "--executable", "./run.sh", "--arguments", "-n 5", "--input", script, "--cpu-time", 3600),
        *("--memory", 2000, "--site", "LCG.CERN.ch", "--name", "hello", "--tag", "gpu", "--environment", "A=b=c"),
        *("--output", "*.root", "--priority", 3, "--group", "lhcb_user"),
    )
    assert ran.code == 0, ran.err
    job = Job.objects.get()
    assert ran.out == f"{job.pk}\n"
    assert job.description == job.description | {
        "executable": "./run.sh",
        "arguments": "-n 5",
        "input_sandbox": [reference_of(script)],
        "cpu_time_s": 3600,
        "memory_mb": 2000,
        "sites": ["LCG.CERN.ch"],
        "tags": ["gpu"],
        "environment": {"A": "b=c"},
        "output_sandbox": ["*.root"],
    }
    assert (job.job_name, job.priority) == ("hello", 3)


def test_a_local_program_is_uploaded(
    sample: SampleData, wms: Wms, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submitted(*options: object) -> tuple[str, list[str]]:
        ran = wms("submit", *options)
        assert (ran.code, ran.err) == (0, "")
        description = Job.objects.latest("pk").description
        return description["executable"], description["input_sandbox"]

    monkeypatch.chdir(script.parent)
    data = script.with_name("data.txt")
    data.write_text("5\n")
    assert submitted("--executable", "run.sh") == ("./run.sh", [reference_of(script)])
    assert submitted("--executable", "./run.sh", "--input", "data.txt") == (
        "./run.sh",
        [reference_of(data), reference_of(script)],
    )
    # Named already, and a program of the node.
    assert submitted("--executable", "run.sh", "--input", "./run.sh") == ("run.sh", [reference_of(script)])
    assert submitted("--executable", str(script)) == (str(script), [])
    assert submitted("--executable", "date") == ("date", [])
    monkeypatch.chdir(script.parent.parent)
    assert submitted("--executable", "work/run.sh") == ("./run.sh", [reference_of(script)])


def test_times_and_sizes_may_have_units(sample: SampleData, wms: Wms) -> None:
    amounts = ("--cpu-time", "2h", "--wall-time", "1 d", "--memory", "2GB", "--disk", "500MB")
    assert wms("submit", "--executable", "/bin/true", *amounts).code == 0
    description = Job.objects.get().description
    assert [description[name] for name in ("cpu_time_s", "wall_time_s", "memory_mb", "disk_mb")] == [
        *(7200, 86_400),
        *(2000, 500),
    ]
    for option, text in (("--memory", "2h"), ("--memory", "2.5GB"), ("--cpu-time", "h"), ("--cpu-time", "-5")):
        assert wms("submit", "--executable", "/bin/true", f"{option}={text}").code == 2
    assert "give a whole number such as 2000 (megabytes) or 2GB" in wms("submit", "--memory", "much").err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.jdl", '[ Executable = "run.sh"; // InputSandbox = "no";\n  inputsandbox = { "run.sh" }; JobName = "a" ]'),
        ("job.cfg", "Executable = run.sh\nInputSandbox = run.sh # the program\nJobName = a\n"),
        ("job.json", '{"executable": "run.sh", "input_sandbox": ["run.sh"], "job_name": "a"}'),
        ("job.json", '[{"jdl": "Executable = \\"run.sh\\"; InputSandbox = \\"run.sh\\"; JobName = \\"a\\";"}]'),
        ("job.json", '{"jobs": [{"executable": "run.sh", "input_sandbox": ["run.sh"], "job_name": "a"}]}'),
    ],
)
def test_files_beside_a_description_are_uploaded(
    sample: SampleData, wms: Wms, script: Path, name: str, text: str
) -> None:
    file = script.with_name(name)
    file.write_text(text)
    ran = wms("submit", file)
    assert ran.code == 0, ran.err
    job = Job.objects.get()
    assert job.job_name == "a"
    assert job.description["input_sandbox"] == [reference_of(script)]


def test_parametric_jobs_and_several_files_are_one_submission(sample: SampleData, wms: Wms, script: Path) -> None:
    ran = wms("submit", "--executable", "/bin/true", "--name", "sim-%n", "--count", 12, "--json")
    assert [job["id"] for job in ran.json["jobs"]] == list(Job.objects.order_by("pk").values_list("pk", flat=True))
    assert Job.objects.filter(job_name="sim-11").count() == 1
    for name in ("a.jdl", "b.jdl"):
        script.with_name(name).write_text(f'Executable = "run.sh"; InputSandbox = "run.sh"; JobName = "{name}";')
    ran = wms("submit", script.with_name("a.jdl"), script.with_name("b.jdl"), width=100)
    assert ran.code == 0, ran.err
    first, last = Job.objects.order_by("-pk")[:2][::-1]
    assert first.submission == last.submission
    assert Sandbox.objects.count() == 1
    assert ran.out.splitlines() == [
        f"2 jobs are submitted, {first.pk} to {last.pk}, as submission {first.submission_id}.",
        f"Follow them with `wms watch {first.submission_id}`.",
    ]


def test_warnings_are_printed_beside_the_ids(sample: SampleData, wms: Wms, script: Path) -> None:
    file = script.with_name("job.jdl")
    file.write_text('Executable = "run"; LogLevel = "DEBUG";')
    ran = wms("submit", file)
    assert ran.out == f"{Job.objects.get().pk}\n"
    assert ran.err.startswith("Warning: ")
    assert "LogLevel" in ran.err


def test_a_dry_run_lists_fitting_queues_and_uploads_nothing(sample: SampleData, wms: Wms, script: Path) -> None:
    options = ("--executable", "run.sh", "--input", script)
    ran = wms("submit", "--dry-run", *options)
    assert ran.out.splitlines() == ["1 job would be submitted.", "It fits 1 of 1 queue, at LCG.CERN.ch."]
    ran = wms("submit", "--dry-run", *options, "--processors", 64, "--count", 3)
    first, second, exclusion = ran.out.splitlines()
    assert (first, second) == ("3 jobs would be submitted.", "They fit none of 1 queue.")
    assert exclusion.startswith("processors\t1\t")
    assert wms("submit", "--dry-run", *options, "--json").json["jobs"] == 1
    assert (Submission.objects.count(), Sandbox.objects.count()) == (0, 0)


def test_a_script_in_the_place_of_a_description_is_run(sample: SampleData, wms: Wms, script: Path) -> None:
    ran = wms("submit", script, "--cpu-time", "2h", "--name", "own")
    job = Job.objects.with_description().get()
    assert (ran.code, ran.out) == (0, f"{job.pk}\n")
    described = {name: job.description[name] for name in ("executable", "input_sandbox", "cpu_time_s")}
    assert described == {"executable": "./run.sh", "input_sandbox": [reference_of(script)], "cpu_time_s": 7200}
    assert job.job_name == "own"


@pytest.mark.parametrize(("end", "code", "left"), [(JobStatus.DONE, 0, 0), (JobStatus.FAILED, 1, 2)])
def test_submit_wait_ends_when_jobs_stay_held_because_of_a_canary(
    sample: SampleData, wms: Wms, end: JobStatus, code: int, left: int
) -> None:
    def end_canary() -> None:
        try:
            wait_for(lambda: Job.objects.count() == 3, 60)
            first = Job.objects.earliest("pk")
            Job.objects.filter(pk=first.pk).update(status=end, ended_at=first.submitted_at)
            canaries.decide_due(now=current_time() + timedelta(minutes=1))
            waiting = Job.objects.filter(status=JobStatus.WAITING)
            waiting.update(status=JobStatus.DONE, ended_at=first.submitted_at)
        finally:
            connection.close()

    ending = Thread(target=end_canary)
    ending.start()
    ran = wms("submit", "--executable", "/bin/true", "--count", 3, "--canary", 1, "--wait")
    ending.join()
    assert ran.code == code
    assert (f"{left} jobs stay Held, because a canary did not become Done" in ran.out) == bool(left)
    assert Job.objects.filter(status=JobStatus.HELD).count() == left


def test_mistakes_are_reported_before_anything_is_sent(sample: SampleData, wms: Wms, script: Path) -> None:
    cases: list[tuple[list[object], str]] = [
        (["submit"], "Name a file with a description"),
        (["submit", script.with_name("notes.txt")], "notes.txt is not a job description in JDL, CFG or JSON"),
        (["submit", script, script], "run.sh is not a job description in JDL, CFG or JSON"),
        (["submit", "missing.jdl"], "missing.jdl cannot be read"),
        (["submit", script.with_name("bad.json")], "is not valid"),
        (["submit", "job.jdl", "--executable", "x"], "by files or by options"),
        (["submit", "--executable", "x", "--input", "missing"], "There is no file missing"),
        (["submit", "--executable", "x", "--input", script.parent], "is a directory"),
        (["submit", "--executable", "x", "--environment", "A"], '"A" is not a variable'),
        (["submit", "--executable", "x", "--processors", "2GB"], "is not a whole number"),
        (["submit", "--executable", "x", "--memory", "2,5GB"], "is not understood"),
        (["submit", "--executble", "x"], "Do you mean --executable?"),
    ]
    script.with_name("bad.json").write_text("{")
    script.with_name("notes.txt").write_text("Ask Bob.\n")
    for arguments, sentence in cases:
        ran = wms(*arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        assert sentence in ran.err
        assert len(ran.err.splitlines()) == 1
    assert Submission.objects.count() == 0


def test_a_refused_description_names_its_fields(sample: SampleData, wms: Wms, script: Path) -> None:
    file = script.with_name("job.json")
    file.write_text('{"executable": "run.sh", "memroy_mb": 1}')
    ran = wms("submit", file)
    assert ran.code == 1
    assert "memory_mb" in ran.err
    assert wms("submit", file, "--json").json["code"] == "invalid_description"
    assert Job.objects.count() == 0


@pytest.mark.parametrize(("end", "code"), [(JobStatus.DONE, 0), (JobStatus.FAILED, 1)])
def test_submit_wait_exits_0_if_all_jobs_are_done(sample: SampleData, wms: Wms, end: JobStatus, code: int) -> None:
    def end_jobs() -> None:
        try:
            wait_for(lambda: Job.objects.count() == 2, 60)
            first, second = Job.objects.order_by("pk")
            Job.objects.filter(pk=first.pk).update(status=JobStatus.DONE, ended_at=first.submitted_at)
            Job.objects.filter(pk=second.pk).update(status=end, ended_at=first.submitted_at)
        finally:
            connection.close()

    ending = Thread(target=end_jobs)
    ending.start()
    ran = wms("submit", "--executable", "/bin/true", "--count", 2, "--wait", "--json")
    ending.join()
    assert ran.code == code
    assert sum(ran.json["statuses"].values()) == 2
    assert json.loads(ran.out)["statuses"].get("Done") == 2 - code
