"""`wms output` and `wms logs`."""

import io
import shutil
import tarfile
import threading
from pathlib import Path
from random import Random

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.cli.conftest import SampleData, Wms
from tests.factories import make_job, make_submission, make_token
from tests.pace import wait_for
from wms.client import Client
from wms.client.commands.output import added
from wms.client.outputs import OutputTooLargeError
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, OutputTail, Submission
from wms.jobs.services import sandboxes
from wms.wire.archives import MAX_MEMBERS

pytestmark = pytest.mark.django_db(transaction=True)


def with_output(sample: SampleData, text: bytes = b"hello\n", submission: Submission | None = None) -> Job:
    job = make_job(owner=sample.alice, group=sample.group, status=JobStatus.DONE, submission=submission)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("std.out", "deep/data.txt"):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    packed.seek(0)
    job.output_sandbox = sandboxes.store_output(job, content=packed, now=timezone.now())
    job.save(update_fields=["output_sandbox"])
    return job


def replace_stored(store: Path, content: bytes) -> None:
    """Replace the only stored sandbox, as a server could whose checks are not those of this one."""
    (stored,) = (path for path in store.rglob("*") if path.is_file())
    stored.chmod(0o600)
    stored.write_bytes(content)


def test_an_output_becomes_a_directory(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    job = with_output(sample)
    ran = wms("output", job.pk, "-d", tmp_path / "o")
    assert ran.rows == [[str(job.pk), str(tmp_path / "o" / str(job.pk))]]
    assert (tmp_path / "o" / str(job.pk) / "std.out").read_bytes() == b"hello\n"
    assert (tmp_path / "o" / str(job.pk) / "deep" / "data.txt").read_bytes() == b"hello\n"
    assert [path.name for path in (tmp_path / "o").iterdir()] == [str(job.pk)]


def test_existing_outputs_are_skipped_so_that_an_interrupted_command_continues(
    sample: SampleData, wms: Wms, tmp_path: Path
) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    first, second = (with_output(sample, submission=submission) for _ in range(2))
    make_job(owner=sample.alice, group=sample.group, submission=submission)
    kept = tmp_path / str(first.pk)
    kept.mkdir()
    (tmp_path / f".{second.pk}.unpacked").mkdir()
    ran = wms("output", "--submission", submission.pk, "-d", tmp_path, "--json")
    waiting = Job.objects.get(submission=submission, status=JobStatus.WAITING)
    assert ran.json == {"fetched": [second.pk], "there": [first.pk], "without_output": [waiting.pk]}
    assert list(kept.iterdir()) == []
    wms("output", first.pk, "-d", tmp_path, "--force")
    assert (kept / "std.out").is_file()
    assert wms("output", "--all", "-d", tmp_path, "--json").json["fetched"] == []


def test_many_outputs_are_fetched_at_the_same_time_with_a_bar(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    jobs = [with_output(sample, text=b"%d\n" % number) for number in range(15)]
    target = tmp_path / "o"
    ran = wms("output", "status:done", "-d", target, width=80, typed="")
    assert {path.name for path in target.iterdir()} == {str(job.pk) for job in jobs}
    assert [(target / str(job.pk) / "std.out").read_text() for job in jobs] == [f"{number}\n" for number in range(15)]
    assert f"{'█' * 40} 15/15 fetched" in ran.err
    # After an error nothing is half there.
    make_job(owner=sample.alice, group=sample.group)
    for directory in target.iterdir():
        shutil.rmtree(directory)
    assert wms("output", "status:done", "-d", target, "--max-size", "0").code == 1
    assert list(target.iterdir()) == []


def test_an_archive_can_be_kept(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    job = with_output(sample)
    wms("output", job.pk, "--archive", "-d", tmp_path)
    with tarfile.open(tmp_path / f"{job.pk}.tar.gz") as tar:
        assert tar.getnames() == ["std.out", "deep/data.txt"]


def test_a_job_without_output_is_refused_in_a_sentence(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    job = make_job(owner=sample.alice, group=sample.group)
    ran = wms("output", job.pk, "-d", tmp_path)
    assert ran.code == 1
    assert f"Job {job.pk} has no output" in ran.err
    assert wms("output", "-d", tmp_path).code == 2


def test_a_hostile_archive_writes_nothing_outside_its_directory(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    job = with_output(sample)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("../outside"))
    replace_stored(tmp_path / "s", packed.getvalue())
    target = tmp_path / "o"
    ran = wms("output", job.pk, "-d", target)
    assert ran.code == 1
    assert "outside its directory" in ran.err
    assert not (tmp_path / "outside").exists()
    assert not (target / str(job.pk)).exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(bytes(2_000_001), "more than 2 MB", id="unpacked"),
        pytest.param(Random(1).randbytes(2_000_001), "more than 2 MB", id="packed"),
        pytest.param(b"", f"more than {MAX_MEMBERS} files", id="members"),
    ],
)
def test_an_output_is_fetched_up_to_the_size_that_its_user_allows(
    sample: SampleData, wms: Wms, live_server: LiveServer, tmp_path: Path, content: bytes, sentence: str
) -> None:
    job = with_output(sample)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for number in range(1 if content else MAX_MEMBERS + 1):
            entry = tarfile.TarInfo(f"f{number}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    replace_stored(tmp_path / "s", packed.getvalue())
    target = tmp_path / "o"
    ran = wms("output", job.pk, "-d", target, "--max-size", "2")
    assert (ran.code, sentence in ran.err) == (1, True), ran.err
    fetched = Client(live_server.url, str(make_token(sample.alice))).job(job.pk)
    with pytest.raises(OutputTooLargeError, match=sentence):
        fetched.output(target, most_mb=2)
    assert list(target.iterdir()) == []
    if content:
        wms("output", job.pk, "-d", target, "--max-size", "3MB")
        assert (target / str(job.pk) / "f0").read_bytes() == content


def test_logs_are_the_last_lines(sample: SampleData, wms: Wms) -> None:
    job = make_job(
        owner=sample.alice, group=sample.group, status=JobStatus.RUNNING, std_output_tail="a\tb\n\x1b[31mred\n",
        std_error_tail="oh no\n",
    )  # fmt: skip
    assert wms("logs", job.pk).out == "a\tb\n\x1b[31mred\n"
    assert wms("peek", job.pk, width=80).out == "a    b\n\\x1b[31mred\n"
    assert wms("logs", job.pk, "--stderr").out == "oh no\n"
    assert wms("peek", job.pk, "--json").json["std_error"] == "oh no\n"
    silent = make_job(owner=sample.alice, group=sample.group)
    assert wms("logs", silent.pk).out == ""
    assert "nothing of its output" in wms("logs", silent.pk, width=80).out


def test_logs_of_several_jobs_have_headings(sample: SampleData, wms: Wms) -> None:
    jobs = [
        make_job(owner=sample.alice, group=sample.group, status=JobStatus.FAILED, std_output_tail=f"{number}\n")
        for number in range(2)
    ]
    make_job(owner=sample.alice, group=sample.group)
    expected = "".join(f"==> Job {job.pk}, Failed <==\n{number}\n" for number, job in enumerate(jobs))
    assert wms("logs", "status:failed").out == expected == wms("logs", *(job.pk for job in jobs)).out
    assert [each["std_output"] for each in wms("logs", "status:failed", "--json").json] == ["0\n", "1\n"]
    assert wms("logs", "status:killed").out == "No job matches.\n"
    assert "--follow shows one job, and 2 are named." in wms("logs", "-f", "status:failed").err


def test_logs_of_a_waiting_job_say_what_it_waits_for(
    sample: SampleData, wms: Wms, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(owner=sample.alice, group=sample.group, processors=64)

    def end(_seconds: float) -> None:
        Job.objects.filter(pk=job.pk).update(status=JobStatus.KILLED, ended_at=timezone.now())

    monkeypatch.setattr("wms.client.commands.output.time.sleep", end)
    ran = wms("logs", "--follow", job.pk)
    assert ran.code == 0
    assert ran.err.startswith(f"Job {job.pk} waits. It waits because no queue that serves lhcb fits it")


def test_logs_are_followed_until_the_job_has_ended(sample: SampleData, wms: Wms) -> None:
    job = make_job(owner=sample.alice, group=sample.group, status=JobStatus.RUNNING, std_output_tail="one\n")
    seen = threading.Event()

    def go_on() -> None:
        try:
            seen.wait()
            OutputTail.objects.filter(job=job).update(std_output="one\ntwo\n")
            Job.objects.filter(pk=job.pk).update(status=JobStatus.DONE, ended_at=timezone.now())
        finally:
            connection.close()

    other = threading.Thread(target=go_on)
    other.start()
    seen.set()
    assert wms("logs", "-f", job.pk).out == "one\ntwo\n"
    other.join()
    wait_for(lambda: not other.is_alive(), 10)


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "abc", "abc"),
        ("abc", "abcd", "d"),
        ("abc", "abc", ""),
        ("abcdef", "cdefgh", "gh"),
        ("abc", "xyz", "\n…\nxyz"),
        ("abc", "", ""),
        ("aaaa", "aaab", "b"),
    ],
)
def test_new_lines_of_a_growing_text_are_found(before: str, now: str, new: str) -> None:
    assert added(before, now) == new
