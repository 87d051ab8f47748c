"""The rules of the demonstration: the jobs that it submits, its verdict, and its output."""

import math
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wms.demo import display, running, sample
from wms.demo.expectations import ExpectedJob, JobOutcome, faults
from wms.demo.job_table import ListedJob, WatchedJob
from wms.demo.payloads.pi import estimate
from wms.demo.rest import path_of
from wms.demo.workload import PI_JOBS, submissions
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission

CERN, RAL = "LCG.CERN.ch", "LCG.RAL.uk"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ended(
    status: str = "Done",
    *,
    minor: str = "",
    exit_code: int | None = 0,
    site: str = CERN,
    ce: str = "ce01",
    output: Mapping[str, str] | None = None,
) -> JobOutcome:
    return JobOutcome(status=status, minor_status=minor, exit_code=exit_code, site=site, ce=ce, output=output)


PINNED = ExpectedJob(sites=frozenset({CERN}), ces=frozenset({"ce01"}), output={"std.out": r"\Apinned\n\Z"})
FAILING = ExpectedJob(status=JobStatus.FAILED, exit_code=3)
KILLED = ExpectedJob(status=JobStatus.KILLED, exit_code=None)
PINNED_OUTPUT = {"std.out": "pinned\n"}


@pytest.mark.parametrize(
    ("expected", "happened", "sentences"),
    [
        (PINNED, ended(output=PINNED_OUTPUT), []),
        (PINNED, ended("Waiting", output=PINNED_OUTPUT), ["is Waiting, not Done"]),
        (PINNED, ended("Failed", minor="No disk"), ["is Failed (No disk), not Done"]),
        (PINNED, ended(output=PINNED_OUTPUT, exit_code=None), ["ended with exit code None, not 0"]),
        (PINNED, ended(output=PINNED_OUTPUT, site=RAL), [f"ran at the site {RAL}, not at {CERN}"]),
        (PINNED, ended(output=PINNED_OUTPUT, ce="ce02"), ["ran at the CE ce02, not at ce01"]),
        (PINNED, ended(), ["returned no output"]),
        (PINNED, ended(output={}), ["did not return std.out"]),
        (PINNED, ended(output={"std.out": "no"}), [r"wrote 'no' to std.out, where '\\Apinned\\n\\Z' should be found"]),
        (
            PINNED,
            ended(output={**PINNED_OUTPUT, "scratch.txt": ""}),
            ["returned scratch.txt, which was not requested"],
        ),
        (PINNED, ended(site=RAL), [f"ran at the site {RAL}, not at {CERN}", "returned no output"]),
        (FAILING, ended("Failed", exit_code=3, output={}), []),
        (FAILING, ended("Failed", exit_code=4, output={}), ["ended with exit code 4, not 3"]),
        (FAILING, ended("Done", output={}), ["is Done, not Failed"]),
        (KILLED, ended("Killed", exit_code=143, output={}), []),
    ],
)
def test_outcomes_are_compared_with_expectations(
    expected: ExpectedJob, happened: JobOutcome, sentences: list[str]
) -> None:
    assert list(faults(expected, happened)) == sentences


def test_everything_that_is_submitted_can_be_read_and_has_an_expected_end() -> None:
    total = 0
    for submission in submissions():
        jobs = parse_submission(submission.body).jobs
        assert len(jobs) == len(submission.expected)
        total += len(jobs)

    assert total == 68


def test_the_demo_jobs_estimate_pi() -> None:
    together = sum(estimate(seed=seed, points=5_000) for seed in range(1, 1 + PI_JOBS)) / PI_JOBS

    assert abs(together - math.pi) < 5 * 1.64 / math.sqrt(5_000 * PI_JOBS)


def test_all_sample_users_can_log_in_and_one_is_an_operator() -> None:
    users = {user.username: user for user in sample.log_ins()}

    assert sorted(users) == ["alice", "bob", "charlie", "mary", "olga"]
    assert users["mary"].may == "manager of lhcb; lhcb_user"
    assert {name for name, user in users.items() if user.administers} == {"mary", sample.OPERATOR}
    assert {submission.owner for submission in submissions()} < users.keys()


def test_no_password_of_the_demonstration_is_published_or_used_twice() -> None:
    passwords = [*sample.new_passwords().values(), *sample.new_passwords().values()]

    assert len({*passwords}) == 10
    assert all(len(password) >= 16 for password in passwords)
    published = sample.configuration(machine="x86_64-el9")
    assert all(f"password: ${{WMS_DEMO_PASSWORD_{name.upper()}}}" in published for name in sample.new_passwords())


def test_a_file_that_gets_the_passwords_is_closed_and_named(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with log.open("w") as output:
        log.chmod(0o644)
        assert running._closed_log(output.fileno()) == str(log)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    reading, writing = os.pipe()
    assert running._closed_log(writing) == ""
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_a_row_is_read_as_the_server_writes_it() -> None:
    row = ListedJob.read(
        {
            "id": 7,
            "job_name": "pi",
            "status": "Done",
            "minor_status": "",
            "site": CERN,
            "ce": None,
            "pilot": 3,
            "exit_code": 0,
            "usage": {"wall_s": 1.5},
            "matched_at": "2026-06-01T12:00:00Z",
            "has_output": True,
        }
    )

    assert row == ListedJob(
        id=7, name="pi", status="Done", site=CERN, pilot=3, exit_code=0, wall_s=1.5, matched_at=NOON, has_output=True
    )


def job(
    job_id: int, status: str, *, expected: ExpectedJob = PINNED, output: Mapping[str, str] | None = None
) -> WatchedJob:
    row = ListedJob(id=job_id, name=f"name-{job_id}", status=status, site=CERN, ce="ce01", exit_code=0, wall_s=1.25)
    return WatchedJob(row=row, owner="alice", expected=expected, output=output)


@pytest.mark.parametrize(
    ("watched", "settled"),
    [
        (job(1, "Running"), False),
        (job(1, "Done"), False),
        (job(1, "Done", output={}), True),
        (job(1, "Failed"), True),
        (job(1, "Killed", expected=KILLED), False),
        (job(1, "Killed", expected=KILLED, output={}), True),
    ],
)
def test_a_job_is_settled_when_its_output_is_there_or_its_status_is_another(
    watched: WatchedJob, *, settled: bool
) -> None:
    assert watched.is_settled is settled


def test_progress_counts_jobs_pilots_and_the_matches_of_the_last_seconds() -> None:
    ago = {seconds: NOON - timedelta(seconds=seconds) for seconds in (0, 1, 4, 6)}
    rows = [
        ListedJob(id=1, status="Done", pilot=1, matched_at=ago[6]),
        ListedJob(id=2, status="Running", pilot=2, matched_at=ago[4]),
        ListedJob(id=3, status="Matched", pilot=1, matched_at=ago[1]),
        ListedJob(id=4, status="Completing", pilot=3, matched_at=ago[0]),
        ListedJob(id=5, status="Waiting"),
    ]

    progress = display.progress_of(rows, elapsed_s=20.0, pilots=4)

    assert display.line_of(progress) == (
        " 20 s: 1 of 5 jobs ended (1 Waiting, 1 Matched, 1 Running, 1 Completing, 1 Done); "
        "4 pilots, 3 with a job; 0.6 matches/s"
    )
    assert display.block_of(progress)[1:3] == [
        "  1 of 5 jobs have ended after 20 s",
        "  Waiting         1  ████████",
    ]


def test_the_table_shows_one_line_for_each_job() -> None:
    jobs = [
        job(12, "Waiting"),
        job(3, "Done", output={"std.out": "one\nlast \x1b[2J\n", "std.err": "noise", "b.txt": "b", "empty": ""}),
    ]

    assert display.table_of(jobs).splitlines() == [
        "job  name     owner  site         status   wall time  output",
        "  3  name-3   alice  LCG.CERN.ch  Done         1.2 s  last ?[2J; b.txt",
        " 12  name-12  alice  LCG.CERN.ch  Waiting      1.2 s  -",
    ]


def test_pi_is_the_mean_of_the_job_results() -> None:
    jobs = [job(1, "Done", output={"std.out": "pi = 3.140000\n"}), job(2, "Done", output={"std.out": "pi = 3.143\n"})]

    assert display.pi_of(jobs) == "π is about 3.1415, say 2 jobs together."
    assert display.pi_of([job(1, "Waiting")]) == ""


def test_the_next_page_is_asked_for_by_its_path() -> None:
    assert path_of("http://localhost:8000/api/v1/jobs/?cursor=a%2Bb") == "/api/v1/jobs/?cursor=a%2Bb"
    assert path_of("") == ""
