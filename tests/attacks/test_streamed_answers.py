"""Archives that are made while they are sent: they come whole, and clients that do not read them block no others."""

import hashlib
import io
import socket
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from tests.attacks.web import HOST, Web, web
from tests.factories import NOW, make_job, make_submission
from tests.pace import wait_for, within
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = 4
#: Of the output of one job; it cannot be compressed.
SIZE = 8_000_000
#: Memory of a worker for one download, above that of an idle one; the archive has several times as much.
MOST_MB = 16.0


@dataclass(frozen=True, slots=True)
class Download:
    """The archive of a submission, and the cookie of its owner."""

    path: str
    cookie: str
    directory: Path


@pytest.fixture
def download(tmp_path: Path) -> Download:
    """Return the archive of a submission of jobs with large outputs."""
    submission, directory = make_submission(), tmp_path / "sandboxes"
    for number in range(JOBS):
        job = make_job(submission=submission, status=JobStatus.DONE)
        content = packed(hashlib.shake_256(str(number).encode()).digest(SIZE))
        digest = hashlib.sha256(content).hexdigest()
        (directory / digest[:2]).mkdir(parents=True, exist_ok=True)
        (directory / digest[:2] / digest[2:]).write_bytes(content)
        job.output_sandbox = Sandbox.objects.create(
            digest=digest, size_bytes=len(content), is_archive=True, created_at=NOW
        )
        job.save()
    browser = Client()
    browser.force_login(submission.owner)
    name = settings.SESSION_COOKIE_NAME
    return Download(
        path=f"/submissions/{submission.pk}/outputs.tar.gz",
        cookie=f"{name}={browser.cookies[name].value}",
        directory=directory,
    )


def packed(content: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as writer:
        info = tarfile.TarInfo("noise")
        info.size = len(content)
        writer.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def fetch(server: Web, download: Download) -> bytes:
    """Return the archive.

    Raises:
        HTTPError: the server refuses.
    """
    request = urllib.request.Request(f"http://{HOST}:{server.port}{download.path}", headers={"Cookie": download.cookie})
    with urllib.request.urlopen(request, timeout=within(60)) as answer:
        return bytes(answer.read())


@contextmanager
def unread(server: Web, download: Download) -> Iterator[socket.socket]:
    """Ask for the archive, and read nothing of it."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.connect((HOST, server.port))
        opened.sendall(f"GET {download.path} HTTP/1.1\r\nHost: {HOST}\r\nCookie: {download.cookie}\r\n\r\n".encode())
        yield opened


def test_a_large_archive_is_streamed_in_bounded_memory(tmp_path: Path, download: Download) -> None:
    with web(tmp_path, workers=1, WMS_SANDBOX_DIR=str(download.directory)) as server:
        fetch(server, download)
        before_mb = server.largest_mb()
        content = fetch(server, download)
        assert server.largest_mb() - before_mb < MOST_MB
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        sizes = [info.size for info in archive if info.isreg()]
    assert sizes == [SIZE] * JOBS


def test_unread_downloads_are_closed_and_block_no_others(tmp_path: Path, download: Download) -> None:
    with (
        web(
            tmp_path,
            workers=1,
            WMS_SANDBOX_DIR=str(download.directory),
            WMS_WEB_STREAMS_AT_ONCE="1",
            WMS_WEB_BODY_S="3",
        ) as server,
        unread(server, download) as opened,
    ):
        assert opened.recv(12) == b"HTTP/1.1 200"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetch(server, download)
        assert server.ask("GET", "/healthz")[0] == 200

        def is_free() -> bool:
            try:
                return len(fetch(server, download)) > JOBS * SIZE
            except urllib.error.HTTPError:
                return False

        wait_for(is_free, 60, state=lambda: "refused")
