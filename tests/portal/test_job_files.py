"""The files of a job on its page, and their download: hostile names, contents and archives included."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from tests.cases import quick_cases
from tests.factories import NOW, make_job, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Sandbox
from wms.jobs.services import sandbox_files
from wms.jobs.services.sandboxes import reference_of
from wms.portal.presentation.job_files import MOST_SHOWN_BYTES, ArchiveView, size_in_words

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


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an archive at a job of Alice: its output, or an input."""

    owner: User
    group: Group
    is_input: bool

    def job_with(self, content: bytes) -> Job:
        job = make_job(owner=self.owner, group=self.group, status=JobStatus.DONE)
        if self.is_input:
            job.input_sandboxes.create(sandbox=stored(content, is_archive=True), file_name="in.tar.gz")
        else:
            Job.objects.filter(pk=job.pk).update(output_sandbox=stored(content, is_archive=True))
        return job

    def page(self, portal: Client, job: Job, name: str = "") -> Any:
        reference = self._reference(job) if self.is_input else ""
        chosen = {"tab": "files", "input": reference, "file": name}
        response = portal.get(f"/jobs/{job.pk}/", {key: value for key, value in chosen.items() if value})
        assert response.status_code == HTTPStatus.OK
        return response

    def files(self, portal: Client, job: Job, name: str = "") -> ArchiveView:
        return self.files_on(self.page(portal, job, name))

    def files_on(self, response: Any) -> ArchiveView:
        files = response.context["files"]
        archive = files.input if self.is_input else files.output
        assert isinstance(archive, ArchiveView)
        return archive

    def address(self, job: Job, name: str) -> str:
        inputs = f"inputs/{self._reference(job)}/" if self.is_input else ""
        return f"/jobs/{job.pk}/{inputs}files/{name}"

    def _reference(self, job: Job) -> str:
        return reference_of(job.input_sandboxes.get().sandbox)


@pytest.fixture(params=quick_cases(["output", "input"], quick=1))
def place(request: pytest.FixtureRequest, alice: User, group: Group) -> Place:
    return Place(alice, group, request.param == "input")


def files_of(portal: Client, job: Job) -> Any:
    response = portal.get(f"/jobs/{job.pk}/?tab=files")
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


def test_the_files_of_an_archive_are_listed_shown_and_downloaded(portal: Client, place: Place) -> None:
    job = place.job_with(
        packed(
            (member("./logs", type=tarfile.DIRTYPE), b""),
            (member("./logs/out.txt"), b"all is well\n" * 200),
            (member("histogram.root"), b"\0\1\2" * 500),
            (member("empty"), b""),
            (member("latest", type=tarfile.SYMTYPE, linkname="logs/out.txt"), b""),
        )
    )
    files = place.files(portal, job)
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
    in_place = place.files_on(shown).shown
    assert in_place is not None
    assert in_place.shown == ""
    binary = portal.get(rows["histogram.root"].view_url)
    assert "The file is binary" in binary.content.decode()
    assert "The file is empty" in portal.get(rows["empty"].view_url).content.decode()
    assert downloaded(portal, rows["logs/out.txt"].download_url) == b"all is well\n" * 200
    assert downloaded(portal, rows["histogram.root"].download_url) == b"\0\1\2" * 500
    assert downloaded(portal, rows["empty"].download_url) == b""


def test_the_last_of_two_members_of_one_name_is_shown(portal: Client, place: Place) -> None:
    job = place.job_with(packed((member("a"), b"old"), (member("./a"), b"newer")))
    (row,) = place.files(portal, job).rows
    assert downloaded(portal, row.download_url) == b"newer"


def test_a_long_file_is_shown_up_to_the_limit(portal: Client, place: Place) -> None:
    job = place.job_with(packed((member("log"), b"x" * (MOST_SHOWN_BYTES + 1))))
    shown = place.files(portal, job, "log").shown
    assert shown is not None
    assert len(shown.text) == MOST_SHOWN_BYTES
    assert (shown.shown, shown.size) == ("262 kB", "262 kB")


def test_a_text_that_is_cut_within_a_character_is_text(portal: Client, place: Place) -> None:
    job = place.job_with(packed((member("log"), "é".encode() * MOST_SHOWN_BYTES)))
    shown = place.files(portal, job, "log").shown
    assert shown is not None
    assert shown.text.startswith("éé")


def test_inputs_are_listed_and_downloaded(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    job.input_sandboxes.create(sandbox=stored(HTML, is_archive=False), file_name="<b>page.html")
    response = files_of(portal, job)
    assert response.context["files"].input is None
    (row,) = response.context["files"].inputs
    assert "&lt;b&gt;page.html" in response.content.decode()
    assert row.list_url == ""
    assert downloaded(portal, row.download_url) == HTML


def test_an_archive_among_the_inputs_is_browsed_and_downloaded(portal: Client, alice: User, group: Group) -> None:
    job, content = make_job(owner=alice, group=group), packed((member("run.sh"), b"echo 1"), (member("a/b"), b""))
    job.input_sandboxes.create(sandbox=stored(HTML, is_archive=False), file_name="page.html")
    job.input_sandboxes.create(sandbox=stored(content, is_archive=True), file_name="in.tar.gz")
    page, archive = files_of(portal, job).context["files"].inputs[::-1]
    assert (page.list_url, page.is_shown, archive.is_shown) == ("", False, False)
    response = portal.get(archive.list_url)
    files = response.context["files"]
    assert [row.is_shown for row in files.inputs] == [True, False]
    assert [row.name for row in files.input.rows] == ["a/b", "run.sh"]
    assert "2 files in in.tar.gz" in response.content.decode()
    assert files.input.whole_url == archive.download_url
    assert downloaded(portal, files.input.whole_url) == content
    # The name is that of a file of the input.
    shown = portal.get(files.input.rows[1].view_url).context["files"]
    assert (shown.input.shown.text, shown.output.shown) == ("echo 1", None)


def test_only_archives_of_the_job_are_browsed(portal: Client, alice: User, group: Group) -> None:
    job, other = make_job(owner=alice, group=group), make_job(owner=alice, group=group)
    single, foreign = stored(b"a", is_archive=False), stored(packed((member("a"), b"secret")), is_archive=True)
    job.input_sandboxes.create(sandbox=single, file_name="single")
    other.input_sandboxes.create(sandbox=foreign, file_name="foreign")
    for reference, problem in (
        (reference_of(single), f"The input single of job {job.pk} is a single file, not an archive."),
        (reference_of(foreign), f"Job {job.pk} has no such sandbox."),
        ("../<b>", f"Job {job.pk} has no such sandbox."),
    ):
        response = portal.get(f"/jobs/{job.pk}/", {"tab": "files", "input": reference, "file": "a"})
        assert response.context["files"].input.problem == problem
        assert "secret" not in response.content.decode()
        address = f"/jobs/{job.pk}/inputs/{quote(reference, safe='')}/files/a"
        assert portal.get(address).status_code == HTTPStatus.NOT_FOUND


def test_a_part_of_an_input_can_be_downloaded(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    given = stored(b"0123456789", is_archive=False)
    job.input_sandboxes.create(sandbox=given, file_name="in.txt")
    address = f"/jobs/{job.pk}/inputs/{reference_of(given)}/"
    assert downloaded(portal, address) == b"0123456789"
    part = portal.get(address, headers={"Range": "bytes=4-6"})
    assert (part.status_code, b"".join(part), part["Content-Range"]) == (206, b"456", "bytes 4-6/10")
    assert part["Content-Type"] == "application/octet-stream"
    assert "sandbox" in part["Content-Security-Policy"]
    beyond = portal.get(address, headers={"Range": "bytes=10-"})
    assert (beyond.status_code, beyond["Content-Range"]) == (416, "bytes */10")


def test_the_page_says_why_a_job_has_no_output(portal: Client, alice: User, group: Group) -> None:
    done, running = (
        make_job(owner=alice, group=group, status=status) for status in (JobStatus.DONE, JobStatus.RUNNING)
    )
    assert "The job stored no output." in files_of(portal, done).content.decode()
    assert "no output yet" in files_of(portal, running).content.decode()


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_users_without_access_get_no_file(
    portal: Client, vo: Any, group: Group, place: Place, client_of: ClientOf
) -> None:
    archive = packed((member("a"), b"secret"))
    job, other = place.job_with(archive), place.job_with(packed((member("b"), b"another")))
    given = stored(b"given", is_archive=False)
    make_job(owner=job.owner, group=group).input_sandboxes.create(sandbox=given, file_name="given")
    stranger = client_of(make_user(groups=[group]))
    assert downloaded(portal, place.address(job, "a")) == b"secret"
    for browser, address in (
        (stranger, f"/jobs/{job.pk}/?tab=files"),
        (stranger, f"/jobs/{job.pk}/?tab=files&file=a&input={hashlib.sha256(archive).hexdigest()}"),
        (stranger, place.address(job, "a")),
        (stranger, f"/jobs/{job.pk}/inputs/{reference_of(given)}/"),
        # The owner, by the address of another job.
        (portal, place.address(job, "b")),
        (portal, place.address(job, "a").replace(f"/jobs/{job.pk}/", f"/jobs/{other.pk}/")),
        (portal, f"/jobs/{job.pk}/inputs/{reference_of(given)}/"),
    ):
        assert browser.get(address).status_code == HTTPStatus.NOT_FOUND, address


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
def test_names_and_contents_are_text(name: str, content: bytes, portal: Client, place: Place) -> None:
    job = place.job_with(packed((member(name), content)))
    (row,) = place.files(portal, job).rows
    assert row.name == name
    response = portal.get(row.view_url)
    page = response.content.decode()
    shown = place.files_on(response).shown
    assert shown is not None
    assert shown.text == content.decode()
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
def test_an_archive_with_paths_outside_is_not_read(info: tarfile.TarInfo, portal: Client, place: Place) -> None:
    job = place.job_with(packed((member("harmless"), b"x"), (info, b"")))
    files = place.files(portal, job, "harmless")
    assert files.problem.startswith("The member")
    assert (list(files.rows), files.shown) == ([], None)
    assert portal.get(place.address(job, "harmless")).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "nowhere", "dir", "link", "a/", "."]
)
def test_only_files_of_the_list_are_given(name: str, portal: Client, place: Place) -> None:
    job = place.job_with(
        packed(
            (member("dir", type=tarfile.DIRTYPE), b""),
            (member("a"), b"x"),
            (member("link", type=tarfile.SYMTYPE, linkname="a"), b""),
        )
    )
    assert portal.get(place.address(job, quote(name, safe=""))).status_code == HTTPStatus.NOT_FOUND
    files = place.files(portal, job, name)
    assert (files.shown, files.not_shown) == (None, "The archive has no file of that name.")


def test_a_hundred_thousand_members_are_not_read(portal: Client, place: Place) -> None:
    header = member("a").tobuf()
    job = place.job_with(gzip.compress(header * 100_000 + bytes(1024), compresslevel=1, mtime=0))
    files = place.files(portal, job)
    assert files.problem != ""
    assert list(files.rows) == []


def test_of_many_files_the_first_are_listed(portal: Client, place: Place) -> None:
    job = place.job_with(packed(*((member(f"{number:04}"), b"") for number in range(1500))))
    files = place.files(portal, job)
    assert (len(files.rows), files.rows[-1].name) == (1000, "0999")
    assert files.how_many == "1,000 of 1,500 files"


def test_a_decompression_bomb_is_not_unpacked(portal: Client, place: Place, settings: Settings) -> None:
    settings.WMS_SANDBOX_MAX_UNPACKED_BYTES = 10**6
    job = place.job_with(packed((member("zeros"), bytes(2 * 10**6))))
    files = place.files(portal, job, "zeros")
    assert "unpacks to more than" in files.problem
    assert portal.get(place.address(job, "zeros")).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "content", [b"", b"nothing packed", gzip.compress(b"no tar" * 200, mtime=0), packed((member("a"), b"x"))[:60]]
)
def test_a_damaged_archive_is_reported(content: bytes, portal: Client, place: Place) -> None:
    job = place.job_with(content)
    files = place.files(portal, job, "a")
    assert (files.problem, list(files.rows)) == ("The archive is damaged or incomplete.", [])
    assert portal.get(place.address(job, "a")).status_code == HTTPStatus.NOT_FOUND


def test_a_removed_archive_is_reported(portal: Client, place: Place, tmp_path: Path) -> None:
    job = place.job_with(packed((member("a"), b"x, but gone")))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert place.files(portal, job).problem == "The archive is no longer stored."
    assert portal.get(place.address(job, "a")).status_code == HTTPStatus.NOT_FOUND


def test_an_archive_removed_after_listing_is_reported(portal: Client, place: Place, tmp_path: Path) -> None:
    job = place.job_with(packed((member("a"), b"x, but gone soon")))
    (row,) = place.files(portal, job).rows
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()
    assert place.files_on(portal.get(row.view_url)).not_shown == "The archive is no longer stored."
    assert portal.get(place.address(job, "a")).status_code == HTTPStatus.NOT_FOUND


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
