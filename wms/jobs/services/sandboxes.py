"""Sandboxes: small files that travel with a job; each content is stored once, under its SHA-256."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from django.conf import settings
from django.core.files import File
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q

from wms.accounts.models import Group, Membership, User
from wms.accounts.queries import default_group_of, groups_of
from wms.jobs.domain.archives import SandboxTooLargeError, flaw_of_name
from wms.jobs.models import InputSandbox, Job, Sandbox, SandboxUpload
from wms.jobs.services import sandbox_files, sandbox_upkeep
from wms.jobs.services.archives import check_output_archive, is_safe_archive
from wms.jobs.sql.sandboxes import held_sandboxes
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, NotFoundError, RejectedError
from wms.wire.protocol import SANDBOX_PREFIX, output_sandbox_name

CHUNK_BYTES = 1024 * 1024
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
#: Different outputs of a job within WMS_SANDBOX_GRACE_S, for which unreported ones are kept; several times the number
#: of attempts of a job.
MAX_OUTPUTS_OF_JOB = 10
#: Endings of the names of archives.
ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class BadFileNameError(RejectedError):
    """The file name is not allowed on a worker node."""

    code = "bad_file_name"


class UnusableSandboxError(RejectedError):
    """A job names a sandbox that its owner may not name, or two with the same file name."""

    code = "unusable_sandbox"


class TooManyOutputsError(ConflictError):
    """Too many different outputs were stored for one job."""

    code = "too_many_outputs"


class NoSandboxError(NotFoundError):
    """The sandbox is not an input of the job."""

    code = "no_sandbox"


class NoOutputError(NotFoundError):
    """The job has no output sandbox, or none yet."""

    code = "no_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSandbox:
    """A stored content and its file name for the payload."""

    sandbox: Sandbox
    file_name: str
    #: First bytes of a file that is not uploaded yet; None: they are not known.
    coming_head: bytes | None = None


def coming(file_name: str, *, size_bytes: int | None = None, head: bytes | None = None) -> NamedSandbox:
    """Return a file that is not uploaded yet: its row is not saved, and its name says whether it is an archive.

    Args:
        file_name: for the payload.
        size_bytes: its size; None: not known.
        head: its first bytes; None: not known.
    """
    sandbox = Sandbox(is_archive=file_name.endswith(ARCHIVE_ENDINGS), size_bytes=size_bytes or 0)
    return NamedSandbox(sandbox=sandbox, file_name=file_name, coming_head=head)


def too_large() -> SandboxTooLargeError:
    """Return the error for a file that is larger than the settings allow."""
    return SandboxTooLargeError(
        f"A sandbox may have {settings.WMS_SANDBOX_MAX_BYTES} bytes; larger files belong on a storage element."
    )


def reference_of(sandbox: Sandbox) -> str:
    """Return the name of the content in the REST interface: ``sha256:<hex>``."""
    return f"{SANDBOX_PREFIX}{sandbox.digest}"


def upload(content: BinaryIO, *, file_name: str, owner: User, now: datetime) -> NamedSandbox:
    """Store the uploaded content, unless it is stored already, and allow *owner* to name it in jobs.

    Raises:
        SandboxQuotaError: the sandboxes of the owner, or of the VO, would exceed the quota.
        BadFileNameError: the name is not valid for a single file.
        SandboxTooLargeError: the content, or what it unpacks to, is larger than the settings allow.
        NoRoomError: the disk of the store is nearly full.
        UnsafeArchiveError, DamagedArchiveError: an archive that cannot be unpacked safely.
    """
    if flaw := flaw_of_name(file_name):
        raise BadFileNameError(f"The file's name {flaw}.", errors={"file": [f"The name {flaw}."]})
    digest, size_bytes = _measure(content)
    is_archive = is_safe_archive(content, max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES)
    new = Sandbox(digest=digest, size_bytes=size_bytes, is_archive=is_archive, created_at=now)
    group = default_group_of(owner, groups=groups_of(owner))
    own = SandboxUpload(owner=owner, file_name=file_name, uploaded_at=now, vo=None if group is None else group.vo)
    sandbox = _keep(new, content, own)
    return NamedSandbox(sandbox=sandbox, file_name=file_name)


def store_output(job: Job, *, content: BinaryIO, now: datetime) -> Sandbox:
    """Store the output sandbox that a pilot uploaded for *job*; its owner may name it in other jobs.

    The job does not change: its last report names the output. Call it before the transaction of a
    report, not inside, because it reads and writes files.

    Raises:
        TooManyOutputsError: too many different outputs were uploaded for the job.
        NoOutputArchiveError: it is not a .tar.gz; otherwise as ``upload``.
    """
    digest, size_bytes = _measure(content)
    _refuse_further_output(job, digest=digest, now=now)
    check_output_archive(content, max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES)
    new = Sandbox(digest=digest, size_bytes=size_bytes, is_archive=True, created_at=now)
    name = output_sandbox_name(job.pk)
    return _keep(
        new, content, SandboxUpload(owner=job.owner, file_name=name, is_output=True, uploaded_at=now, vo=job.vo)
    )


def _refuse_further_output(job: Job, *, digest: str, now: datetime) -> None:
    """Refuse another output of a job that has MAX_OUTPUTS_OF_JOB.

    A pilot uploads one per lease, but anybody with the job's token, which payloads can read, could upload many.
    """
    # Uses index: output_of_job
    others = SandboxUpload.objects.filter(
        is_output=True, file_name=output_sandbox_name(job.pk), uploaded_at__gt=now - sandbox_upkeep.grace()
    ).exclude(sandbox__digest=digest)
    if others.count() >= MAX_OUTPUTS_OF_JOB:
        sentence = f"{MAX_OUTPUTS_OF_JOB} different outputs of job {job.pk} were uploaded; no more are accepted."
        raise TooManyOutputsError(sentence)


def no_such_output() -> UnusableSandboxError:
    """Return the error for a report that names an output which was not uploaded for its job."""
    sentence = "No such output was uploaded for this job; upload it first."
    return UnusableSandboxError(sentence, errors={"output_sandbox": [sentence]})


def output_to_fetch(job: Job) -> Sandbox:
    """Return the output sandbox of *job*.

    Raises:
        NoOutputError: there is none.
    """
    if job.output_sandbox is None:
        raise NoOutputError(f"Job {job.pk} has no output sandbox, or none yet: it is {job.status}.")
    return job.output_sandbox


def input_sandbox_of(job: Job, *, digest: str) -> InputSandbox:
    """Return the input of *job* with *digest*, with its sandbox and file name.

    Raises:
        NoSandboxError: it is not an input of the job, whether it is stored or not.
    """
    digest = digest.removeprefix(SANDBOX_PREFIX)
    input_sandbox = InputSandbox.objects.filter(job=job, sandbox__digest=digest).select_related("sandbox").first()
    if input_sandbox is None:
        raise NoSandboxError(f"Job {job.pk} has no such sandbox.")
    return input_sandbox


def input_archive_of(job: Job, *, digest: str) -> InputSandbox:
    """Return the input of *job* with *digest*, which is an archive; otherwise as ``input_sandbox_of``.

    Raises:
        NoSandboxError: it is not an input of the job, or no archive.
    """
    row = input_sandbox_of(job, digest=digest)
    if not row.sandbox.is_archive:
        raise NoSandboxError(f"The input {row.file_name} of job {job.pk} is a single file, not an archive.")
    return row


def open_content(sandbox: Sandbox) -> "File[bytes]":
    """Return the stored content, open for reading; the caller closes it."""
    return sandbox_files.open_stored(sandbox.digest)


def nameable(references: Iterable[str], *, owner: User, group: Group) -> Mapping[str, NamedSandbox]:
    """Return the *references* that *owner*, acting in *group*, may name in a job; one query for any number.

    These are uploads of the owner, and of members of groups of the same VO that share jobs with the owner. The file
    name is that of the owner's newest upload, else of the members' newest.
    """
    digests = {
        reference.removeprefix(SANDBOX_PREFIX) for reference in references if reference.startswith(SANDBOX_PREFIX)
    }
    digests = {digest for digest in digests if DIGEST.match(digest)}
    if not digests:
        return {}
    sharing = Group.objects.sharing().filter(vo=group.vo_id, memberships__user=owner)
    mates = Membership.objects.filter(group__in=sharing).values("user")
    own = ExpressionWrapper(Q(owner=owner), output_field=BooleanField())
    newest = (
        SandboxUpload.objects.filter(Q(owner=owner) | Q(owner__in=mates), sandbox__digest__in=digests)
        .alias(own=own)
        .order_by("sandbox", "-own", "-uploaded_at", "-pk")
        .distinct("sandbox")
        .select_related("sandbox")
    )
    return {
        reference_of(upload.sandbox): NamedSandbox(sandbox=upload.sandbox, file_name=upload.file_name)
        for upload in newest
    }


@transaction_required
def held(sandboxes: Mapping[str, NamedSandbox]) -> Mapping[str, NamedSandbox]:
    """Return those of the sandboxes that are still stored; they cannot be removed until the end of the transaction."""
    ids = held_sandboxes(named.sandbox.pk for named in sandboxes.values())
    return {reference: named for reference, named in sandboxes.items() if named.sandbox.pk in ids}


def resolve(
    references: Sequence[str], *, owner: User, group: Group, known: Mapping[str, NamedSandbox] | None = None
) -> tuple[NamedSandbox, ...]:
    """Return the sandboxes of one job's *references*, in their order and each once.

    Args:
        references: ``sha256:…`` names of one job.
        owner: the owner of the job.
        group: the group in which the owner acts.
        known: result of ``nameable`` for all jobs of the request, which saves a query per job.

    Raises:
        UnusableSandboxError: with errors of ``input_sandbox``; the same whether a content is not stored or was uploaded
            by somebody else.
    """
    usable = nameable(references, owner=owner, group=group) if known is None else known
    unique = tuple(dict.fromkeys(references))
    errors = [
        f"{reference[:80]} is not a sandbox that you, or a member of a sharing group, uploaded. Upload it first."
        for reference in unique
        if reference not in usable
    ]
    chosen = tuple(usable[reference] for reference in unique if reference in usable)
    # An archive is unpacked, so its own name does not matter.
    names = [named.file_name for named in chosen if not named.sandbox.is_archive]
    errors += [
        f'Two of the files are named "{name}", and one would overwrite the other. Upload one under another name.'
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    if errors:
        raise UnusableSandboxError(f"input_sandbox: {errors[0]}", errors={"input_sandbox": errors})
    return chosen


def _measure(content: BinaryIO) -> tuple[str, int]:
    """Return (SHA-256 in hexadecimal, size in bytes) of the content, read chunk by chunk."""
    sha256, size_bytes = hashlib.sha256(), 0
    content.seek(0)
    while chunk := content.read(CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > settings.WMS_SANDBOX_MAX_BYTES:
            raise too_large()
        sha256.update(chunk)
    return sha256.hexdigest(), size_bytes


def _keep(new: Sandbox, content: BinaryIO, upload: SandboxUpload) -> Sandbox:
    """Store an inspected content, its row and its upload.

    The file is written before the row: a crash in between leaves a file that the next upload of the content uses.
    """
    new.check_use_at = upload.uploaded_at + sandbox_upkeep.grace()
    # Before anything is written; the quotas are checked again, exactly, with the row.
    with transaction.atomic():
        sandbox_upkeep.refuse_beyond_quota(upload, size_bytes=new.size_bytes, digest=new.digest)
    sandbox_files.store(content, digest=new.digest, size_bytes=new.size_bytes)
    try:
        sandbox = _record(new, upload)
    except sandbox_upkeep.SandboxQuotaError:
        sandbox_files.discard_unless_known(new.digest)
        raise
    # The file may have been removed as unused before the row existed; now it cannot be removed any more.
    sandbox_files.store(content, digest=new.digest, size_bytes=new.size_bytes)
    return sandbox


def _record(new: Sandbox, upload: SandboxUpload) -> Sandbox:
    """Return the row of the content, inserted unless another upload was faster; record the upload.

    Raises:
        SandboxQuotaError: a quota would be exceeded; nothing was recorded.
    """
    with transaction.atomic(durable=True):
        sandbox_upkeep.refuse_beyond_quota(upload, size_bytes=new.size_bytes, digest=new.digest)
        sandbox_files.hold(new.digest)
        while True:
            Sandbox.objects.bulk_create([new], ignore_conflicts=True)
            sandbox = Sandbox.objects.filter(digest=new.digest).first()
            if sandbox is not None and held_sandboxes([sandbox.pk]):
                break
            # The row was removed in between: insert it again.
        upload.sandbox = sandbox
        SandboxUpload.objects.bulk_create(
            [upload],
            update_conflicts=True,
            unique_fields=["sandbox", "owner", "file_name"],
            update_fields=["uploaded_at"],
        )
    return sandbox
