"""Sandboxes: small files that travel with a job, stored once for each content under the SHA-256 of it (DESIGN §5)."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from django.conf import settings
from django.core.files import File
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q

from wms.accounts.models import Group, Membership, User
from wms.jobs import sql
from wms.jobs.domain.archives import SandboxTooLargeError, flaw_of_name
from wms.jobs.models import InputSandbox, Job, Sandbox, SandboxUpload
from wms.jobs.services import sandbox_files, sandbox_upkeep
from wms.jobs.services.archives import check_output_archive, is_safe_archive
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, NotFoundError, RejectedError

CHUNK_BYTES = 1024 * 1024
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
PREFIX = "sha256:"
#: Different contents within WMS_SANDBOX_GRACE_S, for as long those that no report names are kept: several times as many
#: as attempts of a job.
MAX_OUTPUTS_OF_JOB = 10


class BadFileNameError(RejectedError):
    """A file cannot be put on a worker node under that name."""

    code = "bad_file_name"


class UnusableSandboxError(RejectedError):
    """A job names a sandbox that its owner may not name, or two of which one would overwrite the other."""

    code = "unusable_sandbox"


class TooManyOutputsError(ConflictError):
    """Too many different output sandboxes were uploaded for one job."""

    code = "too_many_outputs"


class NoSandboxError(NotFoundError):
    """The job was not given this sandbox."""

    code = "no_sandbox"


class NoOutputError(NotFoundError):
    """The job has no output sandbox, or none yet."""

    code = "no_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSandbox:
    """A stored content and the file name that the payload will see."""

    sandbox: Sandbox
    file_name: str


def reference_of(sandbox: Sandbox) -> str:
    """Return the name of the content on the wire: ``sha256:<hex>``."""
    return f"{PREFIX}{sandbox.digest}"


def upload(content: BinaryIO, *, file_name: str, owner: User, now: datetime) -> NamedSandbox:
    """Store what *owner* uploaded, unless the same content is stored already, and let the owner name it in jobs.

    Raises:
        SandboxQuotaError: what *owner* has stored would be more than the quota.
        BadFileNameError: the name is none for a single file.
        SandboxTooLargeError: the content, or what it unpacks to, is larger than the settings allow.
        NoRoomError: the disk is nearly full.
        UnsafeArchiveError, DamagedArchiveError: it is an archive that cannot be unpacked safely.
    """
    if flaw := flaw_of_name(file_name):
        raise BadFileNameError(f"The file's name {flaw}.", errors={"file": [f"The name {flaw}."]})
    digest, size_bytes = _measure(content)
    is_archive = is_safe_archive(content, max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES)
    new = Sandbox(digest=digest, size_bytes=size_bytes, is_archive=is_archive, created_at=now)
    sandbox = _keep(new, content, owner=owner, file_name=file_name, now=now)
    return NamedSandbox(sandbox=sandbox, file_name=file_name)


def store_output(job: Job, *, content: BinaryIO, now: datetime) -> Sandbox:
    """Store the output sandbox that a pilot uploaded for *job*; its owner may name it in other jobs.

    The job itself is not changed: its last report names the output (output_of). Reads and writes files, so to be
    called before the transaction of a report, not inside.

    Raises:
        TooManyOutputsError: it was uploaded for the job too often.
        NoOutputArchiveError: it is no .tar.gz; and as upload, but for the quota.
    """
    digest, size_bytes = _measure(content)
    _refuse_further_output(job, digest=digest, now=now)
    check_output_archive(content, max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES)
    new = Sandbox(digest=digest, size_bytes=size_bytes, is_archive=True, created_at=now)
    return _keep(new, content, owner=job.owner, file_name=output_name(job.pk), is_output=True, now=now)


def _refuse_further_output(job: Job, *, digest: str, now: datetime) -> None:
    """Refuse another content for a job that has had enough of them.

    A pilot uploads one for each lease, but whoever has the job's token, which payloads can read, any number.
    """
    # Uses index: output_of_job
    others = SandboxUpload.objects.filter(
        is_output=True, file_name=output_name(job.pk), uploaded_at__gt=now - sandbox_upkeep.grace()
    ).exclude(sandbox__digest=digest)
    if others.count() >= MAX_OUTPUTS_OF_JOB:
        sentence = f"{MAX_OUTPUTS_OF_JOB} different outputs of job {job.pk} were uploaded already; that is enough."
        raise TooManyOutputsError(sentence)


def output_of(job: Job, *, reference: str) -> Sandbox:
    """Return the sandbox that was uploaded as output of *job* and that its last report names.

    Raises:
        UnusableSandboxError: nothing of that content was uploaded for this job.
    """
    uploaded = (
        SandboxUpload.objects.filter(
            sandbox__digest=reference.removeprefix(PREFIX), owner=job.owner_id, file_name=output_name(job.pk)
        )
        .select_related("sandbox")
        .first()
    )
    if uploaded is None:
        raise _no_such_output()
    if not sql.held_sandboxes([uploaded.sandbox_id]):
        raise _no_such_output()
    return uploaded.sandbox


def _no_such_output() -> UnusableSandboxError:
    sentence = "No such output was uploaded for this job; upload it first."
    return UnusableSandboxError(sentence, errors={"output_sandbox": [sentence]})


def output_name(job_id: int) -> str:
    """Return the file name under which a job's output is uploaded and given out."""
    return f"job-{job_id}-output.tar.gz"


def output_to_fetch(job: Job) -> Sandbox:
    """Return the output sandbox of *job*.

    Raises:
        NoOutputError: there is none.
    """
    if job.output_sandbox is None:
        raise NoOutputError(f"Job {job.pk} has no output sandbox, or none yet: it is {job.status}.")
    return job.output_sandbox


def input_sandbox_of(job: Job, *, digest: str) -> InputSandbox:
    """Return what *job* was given under *digest*, with its sandbox and file name.

    Raises:
        NoSandboxError: the job was not given this content, whether or not it is stored.
    """
    given = InputSandbox.objects.filter(job=job, sandbox__digest=digest.removeprefix(PREFIX)).select_related("sandbox")
    found = given.first()
    if found is None:
        raise NoSandboxError(f"Job {job.pk} was given no such sandbox.")
    return found


def open_content(sandbox: Sandbox) -> "File[Any]":
    """Return the stored content, open for reading; the caller closes it."""
    return sandbox_files.open_stored(sandbox.digest)


def nameable(references: Iterable[str], *, owner: User, group: Group) -> Mapping[str, NamedSandbox]:
    """Return those of *references* that *owner*, acting in *group*, may name in a job; one query, however many.

    What the owner uploaded, and what a mate did who is with the owner in a group of the same VO that shares jobs. The
    file name is that of the owner's own newest upload, else of the mates' newest.
    """
    digests = {reference.removeprefix(PREFIX) for reference in references if reference.startswith(PREFIX)}
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
        reference_of(found.sandbox): NamedSandbox(sandbox=found.sandbox, file_name=found.file_name) for found in newest
    }


@transaction_required
def held(found: Mapping[str, NamedSandbox]) -> Mapping[str, NamedSandbox]:
    """Return those that are still stored, which nobody removes until the end of the transaction."""
    ids = sql.held_sandboxes(named.sandbox.pk for named in found.values())
    return {reference: named for reference, named in found.items() if named.sandbox.pk in ids}


def resolve(
    references: Sequence[str], *, owner: User, group: Group, known: Mapping[str, NamedSandbox] | None = None
) -> tuple[NamedSandbox, ...]:
    """Return what one job's *references* name, in their order and each once.

    Args:
        references: ``sha256:…`` names of one job.
        owner: of the job.
        group: in which the owner acts.
        known: what nameable() returned for all jobs of the request, so that many jobs cost one query.

    Raises:
        UnusableSandboxError: field errors of ``input_sandbox``, the same whether a content is not stored at all or
            was stored by a stranger.
    """
    found = nameable(references, owner=owner, group=group) if known is None else known
    unique = tuple(dict.fromkeys(references))
    errors = [
        f"{reference[:80]} is no sandbox that you, or a mate of a sharing group, uploaded. Upload it first."
        for reference in unique
        if reference not in found
    ]
    chosen = tuple(found[reference] for reference in unique if reference in found)
    # An archive is unpacked, its own name is never seen.
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
    """Return (SHA-256 in hexadecimal, bytes) of the content, which is read chunk by chunk."""
    sha256, size_bytes = hashlib.sha256(), 0
    content.seek(0)
    while chunk := content.read(CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > settings.WMS_SANDBOX_MAX_BYTES:
            raise SandboxTooLargeError(
                f"A sandbox may have {settings.WMS_SANDBOX_MAX_BYTES} bytes; larger files belong on a storage element."
            )
        sha256.update(chunk)
    return sha256.hexdigest(), size_bytes


def _keep(
    new: Sandbox, content: BinaryIO, *, owner: User, file_name: str, now: datetime, is_output: bool = False
) -> Sandbox:
    """Store a content that has been looked into, and its row.

    The file is there before the row: a crash between the two leaves a file that the next upload of it uses.
    """
    new.check_use_at = now + sandbox_upkeep.grace()
    if not is_output:
        # Before anything is written; it counts again, and exactly, when the row is.
        with transaction.atomic():
            sandbox_upkeep.refuse_beyond_quota(new, owner=owner)
    sandbox_files.store(content, digest=new.digest, size_bytes=new.size_bytes)
    try:
        sandbox = _record(new, owner=owner, file_name=file_name, is_output=is_output, now=now)
    except sandbox_upkeep.SandboxQuotaError:
        sandbox_files.discard_unless_known(new.digest)
        raise
    # It may have been removed as unused before the row came; nobody removes it from now on.
    sandbox_files.store(content, digest=new.digest, size_bytes=new.size_bytes)
    return sandbox


def _record(new: Sandbox, *, owner: User, file_name: str, is_output: bool, now: datetime) -> Sandbox:
    """Return the row of the content, inserted unless another upload was faster, and note who may name it.

    Raises:
        SandboxQuotaError: what *owner* uploaded would be more than the quota; nothing was noted.
    """
    with transaction.atomic(durable=True):
        if not is_output:
            sandbox_upkeep.refuse_beyond_quota(new, owner=owner)
        sandbox_files.hold(new.digest)
        while True:
            Sandbox.objects.bulk_create([new], ignore_conflicts=True)
            sandbox = Sandbox.objects.filter(digest=new.digest).first()
            if sandbox is not None and sql.held_sandboxes([sandbox.pk]):
                break
            # It was removed in between: insert it again.
        SandboxUpload.objects.bulk_create(
            [SandboxUpload(sandbox=sandbox, owner=owner, file_name=file_name, is_output=is_output, uploaded_at=now)],
            update_conflicts=True,
            unique_fields=["sandbox", "owner", "file_name"],
            update_fields=["uploaded_at"],
        )
    return sandbox
