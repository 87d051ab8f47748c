"""The files of a job's output on its page, and their download: hostile names, contents and archives included."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from tests.factories import NOW, make_job, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Sandbox
from wms.jobs.services import sandbox_files
from wms.jobs.services.sandboxes import reference_of
from wms.portal.presentation.job_files import MOST_SHOWN_BYTES, size_in_words

pytestmark = pytest.mark.django_db

HTML = b"<!doctype html><script>alert(document.cookie)</script>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"></svg>'


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}


def stored(content: bytes, *, is_archive: bool) -> Sandbox:
    """Store a content without the checks of an upload, as a store of another server may have it."""
    digest = hashlib.sha256(content).hexdigest()
    sandbox_files.store(io.BytesIO(content), digest=digest, size_bytes=len(content))
    return Sandbox.objects.create(digest=digest, size_bytes=len(content), is_archive=is_archive, created_at=NOW)


def member(name: str, **attributes: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=0)


JobWith = Callable[[bytes], Job]


@pytest.fixture
def job_with(alice: User, group: Group) -> JobWith:
    def make(output: bytes) -> Job:
        job = make_job(owner=alice, group=group, status=JobStatus.DONE)
        Job.objects.filter(pk=job.pk).update(output_sandbox=stored(output, is_archive=True))
        return job

    return make


def files_of(portal: Client, job: Job, query: str = "") -> Any:
    response = portal.get(f"/jobs/{job.pk}/?tab=files{query}")
    assert response.status_code == HTTPStatus.OK
    return response


def downloaded(portal: Client, address: str) -> bytes:
    response = portal.get(address)
    assert response.status_code == HTTPStatus.OK
    content = b"".join(response)
    assert response["Content-Type"] == "application/octet-stream"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"].startswith("attachment")
    assert "sandbox" in response["Content-Security-Policy"]
    assert response["Content-Length"] == str(len(content))
    return content


# ---- what is there ---------------------------------------------------------------------------------------------------


def test_the_files_of_the_output_are_listed_shown_and_downloaded(portal: Client, job_with: JobWith) -> None:
    job = job_with(
        packed(
            (member("./logs", type=tarfile.DIRTYPE), b""),
            (member("./logs/out.txt"), b"all is well\n" * 200),
            (member("histogram.root"), b"\0\1\2" * 500),
            (member("empty"), b""),
            (member("latest", type=tarfile.SYMTYPE, linkname="logs/out.txt"), b""),
        )
    )
    files = files_of(portal, job).context["files"]
    rows = {row.name: row for row in files.rows}
    assert {name: (row.size, row.link_target) for name, row in rows.items()} == {
        "empty": ("0 B", ""),
        "histogram.root": ("1.5 kB", ""),
        "latest": ("", "logs/out.txt"),
        "logs/out.txt": ("2.4 kB", ""),
    }
    assert rows["latest"].download_url == ""
    shown = portal.get(rows["logs/out.txt"].view_url)
    assert "all is well\nall is well" in shown.content.decode()
    assert shown.context["files"].shown.shown == ""
    binary = portal.get(rows["histogram.root"].view_url)
    assert "The file is binary" in binary.content.decode()
    assert "The file is empty" in portal.get(rows["empty"].view_url).content.decode()
    assert downloaded(portal, rows["logs/out.txt"].download_url) == b"all is well\n" * 200
    assert downloaded(portal, rows["histogram.root"].download_url) == b"\0\1\2" * 500
    assert downloaded(portal, rows["empty"].download_url) == b""


def test_of_two_members_of_one_name_the_last_counts_as_after_unpacking(portal: Client, job_with: JobWith) -> None:
    job = job_with(packed((member("a"), b"old"), (member("./a"), b"newer")))
    (row,) = files_of(portal, job).context["files"].rows
    assert downloaded(portal, row.download_url) == b"newer"


def test_a_long_file_is_shown_up_to_the_limit(portal: Client, job_with: JobWith) -> None:
    job = job_with(packed((member("log"), b"x" * (MOST_SHOWN_BYTES + 1))))
    shown = files_of(portal, job, "&file=log").context["files"].shown
    assert len(shown.text) == MOST_SHOWN_BYTES
    assert (shown.shown, shown.size) == ("262 kB", "262 kB")


def test_a_text_that_is_cut_within_a_character_is_text(portal: Client, job_with: JobWith) -> None:
    job = job_with(packed((member("log"), "é".encode() * MOST_SHOWN_BYTES)))
    shown = files_of(portal, job, "&file=log").context["files"].shown
    assert shown.text.startswith("éé")


def test_inputs_are_listed_and_downloaded(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    job.input_sandboxes.create(sandbox=stored(HTML, is_archive=False), file_name="<b>page.html")
    response = files_of(portal, job)
    (row,) = response.context["files"].inputs
    assert "&lt;b&gt;page.html" in response.content.decode()
    assert downloaded(portal, row.download_url) == HTML


def test_a_job_without_output_says_why(portal: Client, alice: User, group: Group) -> None:
    done, running = (
        make_job(owner=alice, group=group, status=status) for status in (JobStatus.DONE, JobStatus.RUNNING)
    )
    assert "The job stored no output." in files_of(portal, done).content.decode()
    assert "no output yet" in files_of(portal, running).content.decode()


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_strangers_get_no_file(portal: Client, vo: Any, group: Group, job_with: JobWith, client_of: ClientOf) -> None:
    job, other = job_with(packed((member("a"), b"secret"))), job_with(packed((member("b"), b"another")))
    given = stored(b"given", is_archive=False)
    other.input_sandboxes.create(sandbox=given, file_name="given")
    stranger = client_of(make_user(groups=[group]))
    for browser, address in (
        (stranger, f"/jobs/{job.pk}/?tab=files"),
        (stranger, f"/jobs/{job.pk}/files/a"),
        (stranger, f"/jobs/{other.pk}/inputs/{reference_of(given)}/"),
        # The owner, by the address of another job.
        (portal, f"/jobs/{job.pk}/files/b"),
        (portal, f"/jobs/{job.pk}/inputs/{reference_of(given)}/"),
    ):
        assert browser.get(address).status_code == HTTPStatus.NOT_FOUND


# ---- what payloads may try -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("page.html", HTML),
        ("picture.svg", SVG),
        ("<img src=x onerror=alert(1)>.txt", b"x"),
        ("a\"b'c.txt", b"x"),
        ("a?b#c&d=e%2f.txt", b"x"),
        ("été 2009.txt", b"x"),
        ("javascript:alert(1)", b"x"),
        ("..a/b", b"x"),
    ],
)
def test_names_and_contents_are_text(name: str, content: bytes, portal: Client, job_with: JobWith) -> None:
    job = job_with(packed((member(name), content)))
    (row,) = files_of(portal, job).context["files"].rows
    assert row.name == name
    response = portal.get(row.view_url)
    page = response.content.decode()
    assert response.context["files"].shown.text == content.decode()
    for hostile in ("<script>alert", "<svg xmlns", "<img src=x"):
        assert hostile not in page
    assert 'href="javascript:' not in page
    assert downloaded(portal, row.download_url) == content


@pytest.mark.parametrize(
    "info",
    [
        member("../outside"),
        member("/etc/cron.d/job"),
        member("a/../../outside"),
        member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("link", type=tarfile.SYMTYPE, linkname="../../etc/passwd"),
        member("device", type=tarfile.CHRTYPE),
        member("\x1b[2J"),
    ],
    ids=lambda info: f"{info.name} {info.linkname}",
)
def test_an_archive_that_leads_out_is_not_read(info: tarfile.TarInfo, portal: Client, job_with: JobWith) -> None:
    job = job_with(packed((member("harmless"), b"x"), (info, b"")))
    response = files_of(portal, job, "&file=harmless")
    files = response.context["files"]
    assert files.problem.startswith("The member")
    assert (list(files.rows), files.shown) == ([], None)
    assert portal.get(f"/jobs/{job.pk}/files/harmless").status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "nowhere", "dir", "link", "a/", "."]
)
def test_only_files_of_the_list_are_given(name: str, portal: Client, job_with: JobWith) -> None:
    job = job_with(
        packed(
            (member("dir", type=tarfile.DIRTYPE), b""),
            (member("a"), b"x"),
            (member("link", type=tarfile.SYMTYPE, linkname="a"), b""),
        )
    )
    assert portal.get(f"/jobs/{job.pk}/files/{quote(name, safe='')}").status_code == HTTPStatus.NOT_FOUND
    files = files_of(portal, job, f"&file={quote(name, safe='')}").context["files"]
    assert (files.shown, files.not_shown) == (None, "The output has no file of that name.")


def test_a_hundred_thousand_members_are_not_read(portal: Client, job_with: JobWith) -> None:
    header = member("a").tobuf()
    job = job_with(gzip.compress(header * 100_000 + bytes(1024), compresslevel=1, mtime=0))
    files = files_of(portal, job).context["files"]
    assert files.problem != ""
    assert list(files.rows) == []


def test_of_many_files_the_first_are_listed(portal: Client, job_with: JobWith) -> None:
    job = job_with(packed(*((member(f"{number:04}"), b"") for number in range(1500))))
    files = files_of(portal, job).context["files"]
    assert (len(files.rows), files.rows[-1].name) == (1000, "0999")
    assert files.how_many == "1,000 of 1,500 files"


def test_a_bomb_is_not_unpacked(portal: Client, job_with: JobWith, settings: Settings) -> None:
    settings.WMS_SANDBOX_MAX_UNPACKED_BYTES = 10**6
    job = job_with(packed((member("zeros"), bytes(2 * 10**6))))
    files = files_of(portal, job, "&file=zeros").context["files"]
    assert "unpacks to more than" in files.problem
    assert portal.get(f"/jobs/{job.pk}/files/zeros").status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "content", [b"", b"nothing packed", gzip.compress(b"no tar" * 200, mtime=0), packed((member("a"), b"x"))[:60]]
)
def test_a_damaged_archive_says_so(content: bytes, portal: Client, job_with: JobWith) -> None:
    job = job_with(content)
    files = files_of(portal, job, "&file=a").context["files"]
    assert (files.problem, list(files.rows)) == ("The archive is damaged or incomplete.", [])
    assert portal.get(f"/jobs/{job.pk}/files/a").status_code == HTTPStatus.NOT_FOUND


def test_an_output_that_is_no_longer_stored_says_so(portal: Client, job_with: JobWith, tmp_path: Path) -> None:
    job = job_with(packed((member("a"), b"x, but gone")))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert files_of(portal, job).context["files"].problem == "The output is no longer stored."
    assert portal.get(f"/jobs/{job.pk}/files/a").status_code == HTTPStatus.NOT_FOUND


def test_an_output_that_is_removed_after_it_was_listed_says_so(
    portal: Client, job_with: JobWith, tmp_path: Path
) -> None:
    job = job_with(packed((member("a"), b"x, but gone soon")))
    (row,) = files_of(portal, job).context["files"].rows
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert portal.get(row.view_url).context["files"].not_shown == "The output is no longer stored."
    assert portal.get(f"/jobs/{job.pk}/files/a").status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (123_456_789, "123 MB"),
        (2 * 10**12, "2,000 GB"),
    ],
)
def test_sizes_have_a_unit(size_bytes: int, expected: str) -> None:
    assert size_in_words(size_bytes) == expected
