"""Outputs that are downloaded from the web server of `up` over connections that break off."""

import hashlib
import http.client
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.attacks.web import HOST, Web, web
from tests.end_to_end.client.dropping_proxy import Drop, dropping_proxy
from tests.factories import NOW, make_job, make_token
from tests.pace import within
from wms.client import Client, NotReachableError, retries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

#: It cannot be compressed.
NOISE = hashlib.shake_256(b"noise").digest(3_000_000)


def packed() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as writer:
        info = tarfile.TarInfo("noise")
        info.size = len(NOISE)
        writer.addfile(info, io.BytesIO(NOISE))
    return archive.getvalue()


ARCHIVE = packed()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    digest = hashlib.sha256(ARCHIVE).hexdigest()
    stored = tmp_path / "sandboxes" / digest[:2] / digest[2:]
    stored.parent.mkdir(parents=True)
    stored.write_bytes(ARCHIVE)
    job = make_job(status=JobStatus.DONE)
    job.output_sandbox = Sandbox.objects.create(digest=digest, size_bytes=len(ARCHIVE), is_archive=True, created_at=NOW)
    job.save()
    return job


@pytest.fixture
def server(job: Job, tmp_path: Path) -> Iterator[Web]:
    with web(tmp_path, workers=1, WMS_SANDBOX_DIR=str(tmp_path / "sandboxes")) as running:
        yield running


def test_the_web_server_sends_parts(server: Web, job: Job) -> None:
    headers = {"Authorization": f"Bearer {make_token(job.owner)}"}
    for first, last in [(0, 0), (0, len(ARCHIVE) - 1), (5, 2_000_000), (len(ARCHIVE) - 1, len(ARCHIVE) - 1)]:
        asking = http.client.HTTPConnection(HOST, server.port, timeout=within(60))
        asking.request("GET", f"/api/v1/jobs/{job.pk}/output/", headers={**headers, "Range": f"bytes={first}-{last}"})
        answer = asking.getresponse()
        assert (answer.status, answer.read()) == (206, ARCHIVE[first : last + 1])
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(ARCHIVE)}"
        asking.close()
    asking = http.client.HTTPConnection(HOST, server.port, timeout=within(60))
    asking.request("GET", f"/api/v1/jobs/{job.pk}/output/", headers={**headers, "Range": f"bytes={len(ARCHIVE)}-"})
    answer = asking.getresponse()
    assert (answer.status, answer.headers["Content-Range"]) == (416, f"bytes */{len(ARCHIVE)}")
    assert b"range_not_satisfiable" in answer.read()
    asking.close()


def test_a_download_that_breaks_off_is_continued(
    server: Web, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_FIRST_S", 0.01)
    token = make_token(job.owner)

    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(drops=st.lists(st.integers(1, len(ARCHIVE) // 2), min_size=1, max_size=3))
    @example(drops=[len(ARCHIVE) // 4, len("HTTP/1.1 206")])
    def continued(drops: list[int]) -> None:
        target = tmp_path / "output.tar.gz"
        target.unlink(missing_ok=True)
        with dropping_proxy(f"http://{HOST}:{server.port}") as proxy:
            client = Client(proxy.url, token)
            proxy.plan([Drop(None, after) for after in drops])
            received: list[int] = []
            client.connection.download(
                f"/api/v1/jobs/{job.pk}/output/", target, on_bytes=lambda have, _: received.append(have)
            )
            client.connection.close()
            assert proxy.is_used_up
        assert target.read_bytes() == ARCHIVE
        # Nothing that had arrived is sent again.
        assert received == sorted(set(received))

    continued()


def test_a_later_run_continues_the_output(server: Web, job: Job, tmp_path: Path) -> None:
    token = make_token(job.owner)
    with dropping_proxy(f"http://{HOST}:{server.port}") as proxy:
        first = Client(proxy.url, token)
        first.connection.retry_s = 0
        proxy.plan([Drop(None, 2_000_000)])
        with pytest.raises(NotReachableError):
            first.job(job.pk).output(tmp_path / "o")
        (part,) = (tmp_path / "o").iterdir()
        size = part.stat().st_size
        assert 0 < size < len(ARCHIVE)
    later = Client(f"http://{HOST}:{server.port}", token)
    seen: list[int] = []
    later.job(job.pk).output(tmp_path / "o", on_bytes=lambda have, _: seen.append(have))
    later.connection.close()
    assert seen[0] > size
    assert (tmp_path / "o" / "noise").read_bytes() == NOISE
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["noise"]
