"""Contents are stored once, used only by permitted users, and inspected when they are uploaded."""

import bz2
import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries, Settings

from tests.factories import NOW, make_group, make_job, make_user, make_vo
from tests.threads import at_once
from wms.accounts.models import Membership, User
from wms.jobs.domain.archives import SandboxTooLargeError, UnsafeArchiveError
from wms.jobs.models import InputSandbox, Sandbox, SandboxUpload
from wms.jobs.services import sandbox_check, sandbox_files, sandboxes
from wms.jobs.services.archives import DamagedArchiveError, NoOutputArchiveError
from wms.jobs.services.sandboxes import (
    BadFileNameError,
    NamedSandbox,
    NoOutputError,
    NoSandboxError,
    UnusableSandboxError,
)

pytestmark = pytest.mark.usefixtures("directory")


def upload(content: bytes, *, owner: User, name: str = "run.sh", minutes: int = 0) -> NamedSandbox:
    return sandboxes.upload(io.BytesIO(content), file_name=name, owner=owner, now=NOW + timedelta(minutes=minutes))


def files_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def tar(*members: tuple[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002 - tarfile's word
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


# ---- storing ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_upload_is_stored_under_its_digest(directory: Path) -> None:
    named = upload(b"echo hello", owner=make_user())

    digest = hashlib.sha256(b"echo hello").hexdigest()
    assert sandboxes.reference_of(named.sandbox) == f"sha256:{digest}"
    assert (named.file_name, named.sandbox.size_bytes, named.sandbox.is_archive) == ("run.sh", 10, False)
    assert files_in(directory) == [f"{digest[:2]}/{digest[2:]}"]
    with sandboxes.open_content(named.sandbox) as content:
        assert content.read() == b"echo hello"


@pytest.mark.django_db
def test_an_empty_file_is_a_sandbox() -> None:
    assert upload(b"", owner=make_user()).sandbox.size_bytes == 0


@pytest.mark.django_db
def test_the_same_content_is_stored_once_whoever_sends_it_under_whatever_name(directory: Path) -> None:
    alice, bob = make_user(), make_user()
    sent = [upload(b"x", owner=alice), upload(b"x", owner=alice), upload(b"x", owner=alice, name="y")]
    sent.append(upload(b"x", owner=bob))

    assert len({named.sandbox.pk for named in sent}) == 1
    assert Sandbox.objects.count() == 1
    assert SandboxUpload.objects.count() == 3
    assert len(files_in(directory)) == 1


@pytest.mark.django_db(transaction=True)
def test_eight_uploads_of_one_content_at_once_store_it_once(directory: Path) -> None:
    users = [make_user() for _ in range(4)]
    content = b"x" * 300_000

    works: list[Callable[[], NamedSandbox]] = [
        lambda owner=users[number % 4]: upload(content, owner=owner)  # type: ignore[misc]
        for number in range(8)
    ]
    uploaded = at_once(works)

    assert len({named.sandbox.pk for named in uploaded}) == 1
    assert Sandbox.objects.count() == 1
    assert SandboxUpload.objects.count() == 4
    assert len(files_in(directory)) == 1
    with sandboxes.open_content(uploaded[0].sandbox) as stored:
        assert stored.read() == content


@pytest.mark.django_db
def test_a_file_that_a_crash_left_incomplete_is_replaced_by_the_next_upload(directory: Path) -> None:
    digest = hashlib.sha256(b"whole").hexdigest()
    left_over = directory / digest[:2] / digest[2:]
    left_over.parent.mkdir()
    left_over.write_bytes(b"who")

    upload(b"whole", owner=make_user())

    assert left_over.read_bytes() == b"whole"
    assert len(files_in(directory)) == 1


@pytest.mark.django_db
def test_a_storage_without_a_file_system_is_supported(settings: Settings) -> None:
    memory = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": memory}

    named = upload(b"x", owner=make_user())

    with sandboxes.open_content(named.sandbox) as content:
        assert content.read() == b"x"
    assert not storages["sandboxes"].exists("incoming")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "..", "a/b", "a\nb", "é" * 128])
def test_a_bad_file_name_stores_nothing(name: str, directory: Path) -> None:
    with pytest.raises(BadFileNameError) as refusal:
        upload(b"x", owner=make_user(), name=name)
    assert list(refusal.value.errors) == ["file"]
    assert files_in(directory) == []
    assert not Sandbox.objects.exists()


@pytest.mark.django_db
def test_an_upload_of_exactly_the_limit_is_accepted_and_one_byte_more_refused(
    settings: Settings, directory: Path
) -> None:
    settings.WMS_SANDBOX_MAX_BYTES = 1000
    upload(bytes(1000), owner=make_user())
    with pytest.raises(SandboxTooLargeError):
        upload(b"x" * 1001, owner=make_user())
    assert len(files_in(directory)) == 1
    assert Sandbox.objects.count() == 1


# ---- who may name what -----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_owner_may_use_an_upload_in_any_own_group() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    reference = sandboxes.reference_of(upload(b"x", owner=alice, name="in.dat").sandbox)

    (named,) = sandboxes.resolve([reference, reference], owner=alice, group=group)

    assert (named.file_name, sandboxes.reference_of(named.sandbox)) == ("in.dat", reference)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("mates", "shares_jobs", "same_vo", "may"),
    [(True, True, True, True), (True, False, True, False), (False, True, True, False), (True, True, False, False)],
)
def test_group_members_may_use_an_upload_only_in_a_sharing_group(
    mates: bool, shares_jobs: bool, same_vo: bool, may: bool
) -> None:
    vo = make_vo()
    shared = make_group(vo=vo, shares_jobs=shares_jobs)
    own = make_group(vo=vo if same_vo else None)
    alice, bob = make_user(groups=[shared]), make_user(groups=[own])
    if mates:
        Membership.objects.create(user=bob, group=shared)
    reference = sandboxes.reference_of(upload(b"x", owner=alice).sandbox)

    found = sandboxes.nameable([reference], owner=bob, group=own)

    assert list(found) == ([reference] if may else [])


@pytest.mark.django_db
def test_a_refusal_does_not_disclose_that_an_upload_exists() -> None:
    group = make_group()
    charlie = make_user(groups=[group])
    of_another = sandboxes.reference_of(upload(b"x", owner=make_user()).sandbox)
    of_nobody = "sha256:" + "0" * 64

    sentences = []
    for reference in (of_another, of_nobody):
        with pytest.raises(UnusableSandboxError) as refusal:
            sandboxes.resolve([reference], owner=charlie, group=group)
        (sentence,) = refusal.value.errors["input_sandbox"]
        sentences.append(sentence.replace(reference, "it"))
    assert sentences[0] == sentences[1]


@pytest.mark.django_db
@pytest.mark.parametrize("reference", ["", "x", "sha256:", "sha256:" + "A" * 64, "md5:" + "0" * 64, "0" * 64])
def test_an_invalid_sandbox_reference_is_refused(reference: str) -> None:
    group = make_group()
    with pytest.raises(UnusableSandboxError):
        sandboxes.resolve([reference], owner=make_user(groups=[group]), group=group)


@pytest.mark.django_db
def test_the_file_name_is_that_of_the_newest_own_or_group_upload() -> None:
    group = make_group(shares_jobs=True)
    alice, bob = make_user(groups=[group]), make_user(groups=[group])
    upload(b"x", owner=alice, name="second", minutes=1)
    upload(b"x", owner=alice, name="first", minutes=2)
    reference = sandboxes.reference_of(upload(b"x", owner=alice, name="second", minutes=3).sandbox)
    assert sandboxes.resolve([reference], owner=bob, group=group)[0].file_name == "second"

    upload(b"x", owner=bob, name="mine", minutes=0)
    assert sandboxes.resolve([reference], owner=bob, group=group)[0].file_name == "mine"


@pytest.mark.django_db
def test_two_files_of_one_name_are_refused_and_two_archives_are_not() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    files = [sandboxes.reference_of(upload(content, owner=alice, name="in").sandbox) for content in (b"1", b"2")]
    packed = [
        sandboxes.reference_of(upload(tar(("a", content)), owner=alice, name="in").sandbox) for content in (b"1", b"2")
    ]

    assert len(sandboxes.resolve([files[0], *packed], owner=alice, group=group)) == 3
    with pytest.raises(UnusableSandboxError, match='"in"'):
        sandboxes.resolve(files, owner=alice, group=group)


@pytest.mark.django_db
def test_the_sandboxes_of_many_jobs_cost_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    group = make_group()
    alice = make_user(groups=[group])
    references = [
        sandboxes.reference_of(upload(str(number).encode(), owner=alice, name=f"f{number}").sandbox)
        for number in range(20)
    ]
    with django_assert_num_queries(1):
        known = sandboxes.nameable(references, owner=alice, group=group)
        for number in range(1, 20):
            sandboxes.resolve(references[:number], owner=alice, group=group, known=known)


# ---- what jobs are given and write -----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_job_may_read_its_own_sandboxes_only() -> None:
    job = make_job()
    given, other = upload(b"1", owner=job.owner), upload(b"2", owner=job.owner)
    InputSandbox.objects.create(job=job, sandbox=given.sandbox, file_name="in.dat")

    assert sandboxes.input_sandbox_of(job, digest=given.sandbox.digest).file_name == "in.dat"
    assert sandboxes.input_sandbox_of(job, digest=sandboxes.reference_of(given.sandbox)).sandbox == given.sandbox
    with pytest.raises(NoSandboxError):
        sandboxes.input_sandbox_of(job, digest=other.sandbox.digest)


@pytest.mark.django_db
@pytest.mark.parametrize("members", [[("out/result.root", b"x")], []], ids=["a file", "nothing"])
def test_the_output_of_a_job_is_kept_and_its_owner_may_name_it(members: list[tuple[str, bytes]]) -> None:
    job = make_job()
    packed = gzip.compress(tar(*members))

    stored = sandboxes.store_output(job, content=io.BytesIO(packed), now=NOW)

    assert stored.is_archive
    (named,) = sandboxes.resolve([sandboxes.reference_of(stored)], owner=job.owner, group=job.group)
    assert named.file_name == f"job-{job.pk}-output.tar.gz"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", NoOutputArchiveError),
        (tar(("a", b"x")), NoOutputArchiveError),
        (bz2.compress(tar(("a", b"x"))), NoOutputArchiveError),
        (gzip.compress(b"text"), NoOutputArchiveError),
        (gzip.compress(tar(("a", b"x" * 999)))[:-20], DamagedArchiveError),
        (gzip.compress(tar(("/etc/passwd", b"x"))), UnsafeArchiveError),
    ],
    ids=["empty", "tar", "tar.bz2", "gzipped text", "broken off", "unsafe"],
)
def test_an_output_that_is_no_safe_tar_gz_is_refused(content: bytes, error: type[Exception], directory: Path) -> None:
    job = make_job()
    with pytest.raises(error):
        sandboxes.store_output(job, content=io.BytesIO(content), now=NOW)
    assert files_in(directory) == []
    assert not Sandbox.objects.exists()


@pytest.mark.django_db
def test_a_job_without_output_is_reported() -> None:
    with pytest.raises(NoOutputError, match="Waiting"):
        sandboxes.output_to_fetch(make_job())


# ---- verification ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("damage", "options", "fault"),
    [
        (Path.unlink, [], "is missing"),
        (lambda path: path.write_bytes(b"short"), [], "has 5 bytes, not 10"),
        (lambda path: path.write_bytes(b"echo HELLO"), ["--contents"], "has another content"),
        (lambda path: path.symlink_to(path.rename(f"{path}.moved")), [], "is not an ordinary file"),
        (lambda path: path.parent.rename(f"{path.parent}.moved"), [], "is missing"),
    ],
)
def test_verify_finds_files_that_are_not_as_stored(
    directory: Path, damage: Callable[[Path], object], options: list[str], fault: str
) -> None:
    named = upload(b"echo hello", owner=make_user())
    call_command("verify", *options, stdout=io.StringIO())
    (stored,) = (directory / name for name in files_in(directory))
    damage(stored)

    out = io.StringIO()
    with pytest.raises(CommandError, match="1 violations"):
        call_command("verify", *options, stdout=out)
    assert out.getvalue() == f"The file of sandbox sha256:{named.sandbox.digest} {fault}.\n"


@pytest.mark.django_db
def test_verify_accepts_a_sandbox_that_is_removed_meanwhile(directory: Path) -> None:
    upload(b"echo hello", owner=make_user())
    (directory / files_in(directory)[0]).unlink()
    found = sandbox_check._fault_of
    removed = Mock(side_effect=lambda *row, **how: (found(*row, **how), Sandbox.objects.all().delete())[0])
    with patch.object(sandbox_check, "_fault_of", removed):
        assert list(sandbox_check.wrong_files()) == []


@pytest.mark.django_db
def test_verify_reports_a_file_that_cannot_be_read_beside_others(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = upload(b"first", owner=make_user()), upload(b"second", owner=make_user())

    def unreadable(digest: str) -> int | None:
        if digest == first.sandbox.digest:
            raise PermissionError(13, "Permission denied", digest)
        return sandbox_files.stored_size_bytes(digest)

    monkeypatch.setattr(sandbox_check, "stored_size_bytes", unreadable)
    (directory / second.sandbox.digest[:2] / second.sandbox.digest[2:]).unlink()
    assert set(sandbox_check.wrong_files()) == {
        f"The file of sandbox sha256:{first.sandbox.digest} cannot be read (Permission denied)",
        f"The file of sandbox sha256:{second.sandbox.digest} is missing",
    }


@pytest.mark.django_db
def test_verify_says_that_it_may_not_look_at_files(monkeypatch: pytest.MonkeyPatch) -> None:
    upload(b"echo hello", owner=make_user())
    refused = Mock(side_effect=PermissionError(13, "Permission denied", "/sandboxes"))
    monkeypatch.setattr(sandbox_check, "require_readable_store", refused)
    out = io.StringIO()
    call_command("verify", stdout=out)
    assert (
        "not looked at: files of sandboxes (/sandboxes is another account's: run it as the server's)" in out.getvalue()
    )
