"""The command as a process: in a pseudo terminal, in a pipe, and when it is interrupted."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.core.signals import request_started
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.cli.conftest import SampleData
from tests.factories import make_job, make_submission, make_token
from tests.pace import Deadline, within
from wms.client.commands.watch import lines_of_kinds
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
WMS = Path(__file__).resolve().parents[3] / "wms" / "client" / "wms"
WITHIN_S = 60.0


@pytest.fixture
def environment(sample: SampleData, live_server: LiveServer, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "WMS_SERVER_URL": live_server.url,
        "WMS_TOKEN": str(make_token(sample.alice)),
    }


class Terminal:
    """A pseudo terminal of 80 columns and 24 lines with a command in it."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process, self._descriptor = process, descriptor
        self.shown = ""

    def read_until(self, is_there: Callable[[str], bool]) -> None:
        """Read what is shown until it is what is waited for, or the command has ended."""
        deadline = Deadline(WITHIN_S)
        while not is_there(self.shown):
            assert not deadline.has_passed(), self.shown
            ready, _, _ = select.select([self._descriptor], [], [], 0.1)
            if ready:
                try:
                    part = os.read(self._descriptor, 65536)
                except OSError:  # the command has ended
                    part = b""
                if not part:
                    return
                self.shown += part.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def ended(self) -> int:
        """Return the exit code, when all that is shown was read."""
        self.read_until(lambda _: False)
        return self.process.wait(within(WITHIN_S))


@contextmanager
def terminal(*arguments: object, environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-S", str(WMS), *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "COLUMNS": "80", "LINES": "24"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(ours)


def test_a_terminal_has_colours_unless_they_are_refused(sample: SampleData, environment: dict[str, str]) -> None:
    make_job(owner=sample.alice, group=sample.group, status=JobStatus.DONE)
    with terminal("list", environment=environment) as shown:
        assert shown.ended() == 0
        assert "\x1b[32mDone" in shown.shown
        assert "\x1b[1m" in shown.shown
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with terminal("list", environment={**environment, **more}) as shown:
            assert shown.ended() == 0
            assert "Done" in shown.shown
            assert "\x1b" not in shown.shown


def end(job: Job, status: JobStatus) -> None:
    now = timezone.now()
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(status=status, ended_at=now)
        job.history.create(changed_at=now, status=status, source="a pilot")


def test_a_submission_is_watched_on_the_whole_screen_until_it_has_ended(
    sample: SampleData, environment: dict[str, str]
) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    jobs = [make_job(owner=sample.alice, group=sample.group, submission=submission) for _ in range(2)]
    with terminal("watch", submission.pk, "--interval", 1, environment=environment) as shown:
        shown.read_until(lambda text: "0/2" in text)
        assert shown.shown.startswith("\x1b[?1049h\x1b[?25l")
        end(jobs[0], JobStatus.DONE)
        shown.read_until(lambda text: "1/2" in text)
        end(jobs[1], JobStatus.FAILED)
        assert shown.ended() == 0
    assert "\x1b[?25h\x1b[?1049l" in shown.shown
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.shown.rpartition("\x1b[?1049l")[2])
    assert last.strip().endswith("2/2  1 Done  1 Failed")


def test_a_view_shows_what_runs_and_what_failed_beside_many_that_wait(
    sample: SampleData, environment: dict[str, str]
) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    first = [
        make_job(owner=sample.alice, group=sample.group, submission=submission, status=status)
        for status in (JobStatus.RUNNING, JobStatus.FAILED, JobStatus.DONE)
    ]
    for _ in range(60):
        make_job(owner=sample.alice, group=sample.group, submission=submission)
    with terminal("watch", submission.pk, environment=environment) as shown:
        shown.read_until(lambda text: all(f"{job.pk}  {job.status}" in text for job in first))


@pytest.mark.parametrize(
    ("numbers", "most", "lines"),
    [
        ([9, 3, 684, 100], 20, [7, 3, 5, 5]),
        ([0, 0, 684, 0], 20, [0, 0, 20, 0]),
        ([50, 50, 50, 50], 3, [1, 1, 1, 0]),
        ([1, 1, 1, 1], 20, [1, 1, 1, 1]),
        ([0, 2, 0, 50], 1, [0, 1, 0, 0]),
    ],
)
def test_each_kind_of_jobs_has_its_lines(numbers: list[int], most: int, lines: list[int]) -> None:
    assert lines_of_kinds(numbers, most=most) == lines


def test_a_view_reads_the_lists_again_only_after_a_change(sample: SampleData, environment: dict[str, str]) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    job = make_job(owner=sample.alice, group=sample.group, submission=submission)
    other = make_job(owner=sample.alice, group=sample.group)
    paths: list[str] = []

    def received(environ: dict[str, str], **_: object) -> None:
        paths.append(environ["PATH_INFO"].removeprefix("/api/v1/"))

    def drawn_again(shown: Terminal, times: int) -> None:
        draws = shown.shown.count("0/1")
        shown.read_until(lambda text: text.count("0/1") >= draws + times)

    request_started.connect(received)
    try:
        with terminal("watch", submission.pk, "--interval", 1, environment=environment) as shown:
            drawn_again(shown, 3)
            end(other, JobStatus.DONE)
            drawn_again(shown, 3)
            lists = [path for path in paths if path != "jobs/changes/"]
            assert lists == [f"submissions/{submission.pk}/", "jobs/summary/", "jobs/"]
            # A stream that is no longer kept is begun anew.
            with override_settings(WMS_JOB_CHANGES_S=-1):
                shown.read_until(lambda _: paths.count("jobs/") >= 2)
            end(job, JobStatus.DONE)
            assert shown.ended() == 0
    finally:
        request_started.disconnect(received)
    assert paths.count("jobs/changes/") > 6


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_a_view_is_left_by_a_key_and_the_terminal_is_as_it_was(
    sample: SampleData, environment: dict[str, str], key: str, code: int
) -> None:
    make_job(owner=sample.alice, group=sample.group)
    with terminal("watch", environment=environment) as shown:
        shown.read_until(lambda text: "0/1" in text)
        if key == "q":
            shown.type(key)
        else:
            shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == code
    assert "\x1b[?25h\x1b[?1049l" in shown.shown
    assert "Traceback" not in shown.shown


def test_a_view_without_a_terminal_is_refused(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-S", str(WMS), "watch"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "watch needs a terminal" in ran.stderr


def test_a_closed_pipe_ends_the_command_silently(sample: SampleData, environment: dict[str, str]) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    for _ in range(3):
        make_job(owner=sample.alice, group=sample.group, submission=submission)
    command = f"{sys.executable} -S {WMS} list --json | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


def test_an_interrupted_command_ends_without_a_traceback(sample: SampleData, environment: dict[str, str]) -> None:
    job = make_job(owner=sample.alice, group=sample.group, status=JobStatus.RUNNING, std_output_tail="one\n")
    process = subprocess.Popen(
        [sys.executable, "-S", str(WMS), "logs", "-f", str(job.pk)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=within(WITHIN_S))
    assert (process.returncode, err) == (130, "\n")


def test_waiting_shows_a_bar_beside_the_answer(sample: SampleData, environment: dict[str, str]) -> None:
    with terminal("submit", "--executable", "/bin/true", "--wait", environment=environment) as shown:
        shown.read_until(lambda text: "0/1" in text)
        job = Job.objects.get()
        Job.objects.filter(pk=job.pk).update(status=JobStatus.DONE, ended_at=timezone.now())
        assert shown.ended() == 0
    assert "█" in shown.shown
    assert "1 of 1 jobs are Done." in shown.shown
    assert re.search(r"Job \d+ is submitted\.", shown.shown)
