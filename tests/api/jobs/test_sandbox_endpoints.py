"""POST /api/v1/sandboxes/ and GET /api/v1/jobs/{id}/output/: rights, refusals, and that refusals change nothing."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from resources.domain.enums import SiteTokenPurpose
from resources.services.site_tokens import issue_site_token
from tests.factories import NOW, make_group, make_job, make_pilot_token, make_site, make_token, make_user
from wms.accounts.models import User
from wms.jobs.models import Job, Sandbox, SandboxUpload
from wms.jobs.services import sandboxes

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

URL = "/api/v1/sandboxes/"
MULTIPART = "multipart/form-data; boundary=x"
DIGEST = hashlib.sha256(b"echo hello").hexdigest()


@pytest.fixture(autouse=True)
def directory(settings: Settings, tmp_path: Path) -> Path:
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    return tmp_path


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def send(client: Client, user: User, *, content: bytes = b"echo hello", name: str = "run.sh") -> "Answer":
    return client.post(URL, {"file": SimpleUploadedFile(name, content)}, headers=bearer(make_token(user)))


def send_raw(client: Client, user: User, body: bytes, content_type: str) -> "Answer":
    return client.generic("POST", URL, body, content_type=content_type, headers=bearer(make_token(user)))


def body_of(*parts: tuple[str, str | None, bytes]) -> bytes:
    """Return a multipart body of (name, file name, content)."""
    body = b""
    for name, file_name, content in parts:
        disposition = f'form-data; name="{name}"' + ("" if file_name is None else f'; filename="{file_name}"')
        body += b"--x\r\nContent-Disposition: " + disposition.encode() + b"\r\n\r\n" + content + b"\r\n"
    return body + b"--x--\r\n"


def assert_nothing_stored(directory: Path) -> None:
    assert [path for path in directory.rglob("*") if path.is_file()] == []
    assert not Sandbox.objects.exists()
    assert not SandboxUpload.objects.exists()


@pytest.mark.django_db
def test_an_upload_is_answered_with_its_reference(client: Client) -> None:
    answer = send(client, make_user())
    assert answer.status_code == 201
    assert answer.json() == {"sandbox": f"sha256:{DIGEST}", "file_name": "run.sh", "size_bytes": 10}


@pytest.mark.django_db
def test_the_same_upload_again_gets_the_same_answer(client: Client) -> None:
    alice = make_user()
    assert send(client, alice).json() == send(client, alice).json()
    assert Sandbox.objects.count() == SandboxUpload.objects.count() == 1


@pytest.mark.django_db
def test_an_empty_file_is_taken(client: Client) -> None:
    assert send(client, make_user(), content=b"").json()["size_bytes"] == 0


@pytest.mark.django_db
def test_a_path_in_the_file_name_is_left_out(client: Client) -> None:
    answer = send_raw(client, make_user(), body_of(("file", "../../etc/passwd", b"x")), MULTIPART)
    assert answer.json()["file_name"] == "passwd"


@pytest.mark.django_db
def test_an_upload_larger_than_the_memory_limit_is_stored(client: Client) -> None:
    content = b"0123456789abcdef" * 300_000
    assert send(client, make_user(), content=content).json()["sandbox"] == (
        f"sha256:{hashlib.sha256(content).hexdigest()}"
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "content_type", "status", "field"),
    [
        (b"{}", "application/json", 415, None),
        (b"echo", "application/x-sh", 415, None),
        (b"echo", "", 415, None),
        (b"x", "multipart/form-data", 400, None),
        (b"x", MULTIPART, 400, "file"),
        (body_of(), MULTIPART, 400, "file"),
        (body_of(("file", None, b"text")), MULTIPART, 400, "file"),
        (body_of(("file", "", b"x")), MULTIPART, 400, "file"),
        (body_of(("fil", "a", b"x")), MULTIPART, 400, "fil"),
        (body_of(("file", "a", b"x"), ("name", None, b"b")), MULTIPART, 400, "name"),
        (body_of(("file", "a", b"x"), ("file", "b", b"y")), MULTIPART, 400, "file"),
        (body_of(("file", "é" * 200, b"x")), MULTIPART, 400, "file"),
        (body_of(*[("f", None, b"1")] * 1500), MULTIPART, 400, None),
        (body_of(*[("f", "a", b"1")] * 150), MULTIPART, 400, None),
    ],
)
def test_a_body_without_exactly_one_file_is_refused(
    client: Client, directory: Path, body: bytes, content_type: str, status: int, field: str | None
) -> None:
    answer = send_raw(client, make_user(), body, content_type)

    assert answer.status_code == status
    refusal = answer.json()
    assert refusal["code"]
    assert refusal["detail"]
    assert field is None or field in refusal["errors"]
    assert_nothing_stored(directory)


@pytest.mark.django_db
def test_too_large_a_sandbox_is_refused_as_such(client: Client, settings: Settings, directory: Path) -> None:
    settings.WMS_SANDBOX_MAX_BYTES = 1000
    answer = send(client, make_user(), content=b"x" * 1001)
    assert (answer.status_code, answer.json()["code"]) == (413, "sandbox_too_large")
    assert_nothing_stored(directory)


@pytest.mark.django_db
def test_a_body_that_announces_too_much_is_not_even_read(client: Client, settings: Settings, directory: Path) -> None:
    class Unread(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("it was read")

    environment: dict[str, Any] = {
        "wsgi.input": Unread(),
        "CONTENT_LENGTH": str(settings.WMS_SANDBOX_MAX_BYTES + 10**6),
    }
    answer = client.generic("POST", URL, headers=bearer(make_token(make_user())), **environment)
    assert (answer.status_code, answer.json()["code"]) == (413, "sandbox_too_large")
    assert_nothing_stored(directory)


class Unsafe(NamedTuple):
    name: str
    type: bytes = tarfile.REGTYPE
    target: str = ""
    mode: int = 0o644


@pytest.mark.django_db
@pytest.mark.parametrize(
    "member",
    [
        Unsafe("/etc/cron.d/x"),
        Unsafe("../x"),
        Unsafe("a/../../x"),
        Unsafe("link", tarfile.SYMTYPE, "/etc"),
        Unsafe("link", tarfile.SYMTYPE, "../.."),
        Unsafe("link", tarfile.LNKTYPE, "/etc/passwd"),
        Unsafe("link", tarfile.LNKTYPE, "../x"),
        Unsafe("null", tarfile.CHRTYPE),
        Unsafe("disk", tarfile.BLKTYPE),
        Unsafe("pipe", tarfile.FIFOTYPE),
        Unsafe("root-shell", mode=0o4755),
    ],
)
def test_an_unsafe_archive_is_refused_naming_the_member(client: Client, directory: Path, member: Unsafe) -> None:
    info = tarfile.TarInfo(member.name)
    info.type, info.linkname, info.mode = member.type, member.target, member.mode
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("harmless"))
        archive.addfile(info)

    answer = send(client, make_user(), content=packed.getvalue(), name="files.tar.gz")

    assert (answer.status_code, answer.json()["code"]) == (400, "unsafe_archive")
    assert f'"{member.name}"' in answer.json()["detail"]
    assert_nothing_stored(directory)


def tokens() -> Mapping[str, str]:
    """Return a valid token of each kind, and a forged one."""
    return {
        "user": make_token(make_user()),
        "pilot": make_pilot_token(),
        "advertising site": issue_site_token(make_site(), purpose=SiteTokenPurpose.ADVERTISE, now=NOW),
        "registering site": issue_site_token(make_site(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now()),
        "forged": "wmsu_forged",
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "status"),
    [("user", 201), ("pilot", 403), ("advertising site", 403), ("registering site", 403), ("forged", 401), (None, 401)],
)
def test_access_rights_to_sandbox_uploads(client: Client, directory: Path, kind: str | None, status: int) -> None:
    headers = {} if kind is None else bearer(tokens()[kind])
    answer = client.post(URL, {"file": SimpleUploadedFile("a", b"x")}, headers=headers)
    assert answer.status_code == status
    if status != 201:
        assert_nothing_stored(directory)


# ---- who may name it in a job ----------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(("actor", "status"), [("owner", 201), ("sharing mate", 201), ("mate", 400), ("stranger", 400)])
def test_access_rights_to_an_uploaded_sandbox(client: Client, actor: str, status: int) -> None:
    shared, unshared = make_group(shares_jobs=True), make_group()
    alice = make_user(groups=[shared, unshared], default_group=shared)
    actors = {
        "owner": alice,
        "sharing mate": make_user(groups=[shared]),
        "mate": make_user(groups=[unshared]),
        "stranger": make_user(groups=[make_group()]),
    }
    reference = send(client, alice).json()["sandbox"]

    answer = client.post(
        "/api/v1/jobs/",
        {"executable": "run.sh", "input_sandbox": [reference]},
        content_type="application/json",
        headers=bearer(make_token(actors[actor])),
    )

    assert answer.status_code == status, answer.content
    assert Job.objects.count() == (1 if status == 201 else 0)
    if status == 400:
        assert any("input_sandbox" in field for field in answer.json()["errors"])


# ---- output ----------------------------------------------------------------------------------------------------------


def job_with_output() -> tuple[Job, bytes]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("result"))
    job = make_job(group=make_group(shares_jobs=True))
    job.output_sandbox = sandboxes.store_output(job, content=io.BytesIO(packed.getvalue()), now=NOW)
    job.save(update_fields=["output_sandbox"])
    return job, packed.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("accept", ["*/*", "application/gzip", "text/html"])
def test_the_output_is_streamed_as_a_file(client: Client, accept: str) -> None:
    job, packed = job_with_output()
    answer = client.get(f"/api/v1/jobs/{job.pk}/output/", headers={**bearer(make_token(job.owner)), "Accept": accept})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/gzip"
    assert answer["Content-Disposition"] == f'attachment; filename="job-{job.pk}-output.tar.gz"'
    assert int(answer["Content-Length"]) == len(packed)
    assert b"".join(answer) == packed
    assert gzip.decompress(packed)


@pytest.mark.django_db
def test_a_part_of_the_output_is_sent_for_a_download_that_is_continued(client: Client) -> None:
    job, packed = job_with_output()
    url, headers = f"/api/v1/jobs/{job.pk}/output/", bearer(make_token(job.owner))
    whole = client.get(url, headers=headers)
    assert b"".join(whole) == packed
    rest = client.get(url, headers={**headers, "Range": "bytes=10-", "If-Range": whole["ETag"]})
    assert (rest.status_code, b"".join(rest)) == (206, packed[10:])
    assert rest["Content-Range"] == f"bytes 10-{len(packed) - 1}/{len(packed)}"
    assert rest["ETag"] == whole["ETag"] == f'"{hashlib.sha256(packed).hexdigest()}"'
    beyond = client.get(url, headers={**headers, "Range": f"bytes={len(packed)}-"})
    assert (beyond.status_code, beyond.json()["code"]) == (416, "range_not_satisfiable")
    assert beyond["Content-Range"] == f"bytes */{len(packed)}"


@pytest.mark.django_db
@pytest.mark.parametrize("accept", ["*/*", "application/gzip"])
def test_a_job_without_output_is_a_404(client: Client, accept: str) -> None:
    job = make_job()
    answer = client.get(f"/api/v1/jobs/{job.pk}/output/", headers={**bearer(make_token(job.owner)), "Accept": accept})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_output")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("actor", "status"),
    [
        ("owner", 200),
        ("sharing mate", 200),
        ("VO manager", 200),
        ("operator", 200),
        ("stranger", 404),
        ("pilot", 403),
        ("registering site", 403),
        ("nobody", 401),
    ],
)
def test_access_rights_to_the_output(client: Client, actor: str, status: int) -> None:
    job, _ = job_with_output()
    users = {
        "owner": job.owner,
        "sharing mate": make_user(groups=[job.group]),
        "VO manager": make_user(manages=[job.vo]),
        "operator": make_user(operator=True),
        "stranger": make_user(groups=[make_group(vo=job.vo)]),
    }
    headers = {}
    if actor in users:
        headers = bearer(make_token(users[actor]))
    elif actor != "nobody":
        headers = bearer(tokens()[actor])
    answer = client.get(f"/api/v1/jobs/{job.pk}/output/", headers=headers)
    answer.close()  # as a server does at the end, for the file is still open
    assert answer.status_code == status
    if status == 404:
        assert answer.json()["code"] == "not_found"


@pytest.mark.django_db
def test_a_job_that_does_not_exist_is_a_404(client: Client) -> None:
    for number in (1, 10**30):
        answer = client.get(f"/api/v1/jobs/{number}/output/", headers=bearer(make_token(make_user())))
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
