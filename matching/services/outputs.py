"""Names of a leased job's output files: reserved before a file is stored, and registered afterwards (ADR 72).

A logical name is written once. Its lease reserves it before the first byte is stored, and only the lease that has
reserved it registers it. A registered name is replaced only by a later attempt of the same job, or by a job whose
description asks for ``overwrite`` and whose owner wrote the file.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Final, TypedDict
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.functional import cached_property

from matching.models import Match
from matching.services import leases
from matching.services.data import (
    OutputPlace,
    directory_of,
    elements_for_sandbox,
    elements_there,
    logical_names,
    others_names,
)
from resources.domain.files import UPLOAD_PREFIX, GivenReplica, is_below, lfn_problem, shown
from resources.models import OutputName, Replica, StorageElement
from resources.services.replicas import record, supersede
from wms.jobs.domain.data import home_of, is_own, lease_directory, output_directory, sandbox_lfn
from wms.jobs.domain.lifecycle import LEASED
from wms.jobs.models import Job
from wms.jobs.services.sandboxes import TooManyOutputsError
from wms.kernel.errors import ConflictError, RejectedError
from wms.wire.protocol import MAX_LFN, MAX_OUTPUT_FILES, NAME_TAKEN

logger = logging.getLogger(__name__)

#: Earlier contents of a name that are remembered: so many attempts of a job may end between storing and registering.
_MAX_CONTENTS: Final = 16
_REGISTERED_MEANWHILE: Final = "a file of this name has been registered meanwhile"


class NotOutputOfJobError(RejectedError):
    """The file, or its storage element, is not part of the job's output."""

    code = "not_output_of_job"


class JobIsOverError(ConflictError):
    """The job was killed or rescheduled; its output is not accepted any more."""

    code = "job_is_over"


class NameTakenError(ConflictError):
    """Another file has the logical name, or another job is storing one under it."""

    code = NAME_TAKEN


class LeftContent(TypedDict):
    """Content that a lease may have stored under a name; the lease by its hexadecimal id."""

    match: str
    #: The name that was requested.
    requested: str
    storage_element: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """An output file that a pilot is about to store."""

    lfn: str
    size_bytes: int
    checksum: str
    #: Whether the storage element has another file of this name, which the catalogue does not know.
    exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedName:
    """The name under which an output file is to be stored."""

    lfn: str
    #: The name it gets: *lfn*, or one in the job's own directory if that is taken.
    stored_as: str
    #: Why it is not *lfn*, as a sentence without its end; empty: it is.
    reason: str
    #: Name of the lease's own to which the bytes go first; they are then moved to ``stored_as``.
    upload: str
    #: Whether a file of this name may be replaced, whatever its content.
    replaces: bool
    #: Contents that earlier leases may have left under this name, which may be replaced.
    earlier: Sequence[LeftContent]
    #: Uploads that earlier leases may have left, which are to be removed.
    leftovers: Sequence[str]


def place_for_sandbox(match_id: UUID) -> OutputPlace | None:
    """Return where the output sandbox of a leased job goes if it is too large for the server; None: nowhere.

    Raises:
        LeaseEndedError, PilotRevokedError: see ``leases.open_job``.
    """
    leases.open_job(match_id)
    match = Match.objects.select_related("queue__ce", "job__vo", "job__owner", "job__stored_description").get(
        pk=match_id
    )
    element = next(iter(elements_for_sandbox(match)), None)
    if element is None:
        return None
    return OutputPlace(storage_element=element.name, url=element.url, path=directory_of(match.job))


def reserve_names(match_id: UUID, files: Sequence[OutputFile], *, storage_element: str) -> Sequence[ReservedName]:
    """Reserve the names of output files, each once, until the lease ends; repeating it returns the same names.

    A file whose name is taken gets another one: in the job's own directory, which has its id, then below it.

    Args:
        match_id: the lease.
        files: of the job, with different names.
        storage_element: where they will be stored.

    Raises:
        LeaseEndedError, PilotRevokedError: see ``leases.open_job``.
        JobIsOverError: the job's output is not accepted any more.
        NotOutputOfJobError: a file, or the storage element, is not one of this job's.
        NameTakenError: the lease has reserved all names that a file may get for other contents.
        TooManyOutputsError: the lease would make more names than a job has output files.
    """
    with transaction.atomic(durable=True):
        lease = _Lease(match_id)
        lease.refuse_element(storage_element, lfns=[file.lfn for file in files])
        for file in files:
            lease.refuse_name(file.lfn)
        try:
            with transaction.atomic():
                reserved = _reserve(lease, files, storage_element, most=1)
        except NameTakenError:
            # The locks are gone with the savepoint: names that are locked in two steps could deadlock.
            reserved = _reserve(lease, files, storage_element, most=_CANDIDATES)
    for name in reserved:
        if name.reason:
            extra = {"job_id": lease.job.pk, "lfn": name.lfn, "stored_as": name.stored_as}
            logger.info("job.output_name_taken", extra=extra)
    return reserved


def register_output(match_id: UUID, replica: GivenReplica) -> None:
    """Record that the pilot has stored an output file of its job; repeating it is harmless.

    A name that the lease has not reserved is reserved now. Where the file replaces another, copies of that, at any
    storage element, are deleted from the catalogue.

    Raises:
        LeaseEndedError, PilotRevokedError: see ``leases.open_job``.
        JobIsOverError: the job's output is not accepted any more.
        NotOutputOfJobError: the file, or the storage element, is not one of this job's.
        NameTakenError: another file has this name, or another job is storing one under it.
        ReplicasError: the storage element does not exist or does not serve the job's VO.
        TooManyOutputsError: as for ``reserve_names``.
    """
    with transaction.atomic(durable=True):
        lease = _Lease(match_id)
        names = _Names(lease, [replica.lfn])
        row = names.of(replica.lfn)
        if row.match_id != match_id:
            lease.refuse_name(replica.lfn)
        lease.refuse_element(replica.storage_element, lfns=[replica.lfn])
        if reason := names.why_not_registered(replica):
            raise NameTakenError(f"{shown(replica.lfn)} is not registered: {reason}.")
        if record([replica], vo=lease.job.vo).changed and not names.is_registered_at(replica):
            # A manager, who had found no row to lock, was faster by less than this transaction.
            raise NameTakenError(f"{shown(replica.lfn)} is not registered: {_REGISTERED_MEANWHILE}.")
        supersede(replica, vo=lease.job.vo)
        row.match_id, row.writer_id, row.owner = match_id, lease.job.pk, lease.job.owner
        row.save(update_fields=["match_id", "writer_id", "owner"])
    logger.info("job.output_registered", extra={"job_id": lease.job.pk, "lfn": replica.lfn})


class _Lease:
    """The open lease, locked with its job, and the rules for what it may store."""

    def __init__(self, match_id: UUID) -> None:
        self.match = leases.locked_open_lease(match_id)
        self.job: Job = self.match.job
        if self.job.status not in LEASED:
            raise JobIsOverError(f"Job {self.job.pk} is {self.job.status}; its output is not accepted any more.")

    @cached_property
    def own_directory(self) -> str:
        """The directory of the job, which has its id."""
        return output_directory(None, vo=self.job.vo.name, username=self.job.owner.username, job_id=self.job.pk)

    @cached_property
    def _directory(self) -> str:
        return directory_of(self.job)

    @cached_property
    def _expected_names(self) -> Collection[str]:
        sandbox = sandbox_lfn(self._directory, job_id=self.job.pk)
        return {sandbox} | (logical_names(self.job) - others_names(self.job))

    @cached_property
    def _elements(self) -> Sequence[StorageElement]:
        return elements_there(self.match)

    def refuse_name(self, lfn: str) -> None:
        """Refuse a name that is not one of the job's outputs."""
        directories = [self._directory, self.own_directory] if self.job.description["output_data"] else []
        if self.job.description.get("output_se"):
            directories.append(self.own_directory)
        below = any(is_below(lfn, directory) for directory in directories)
        why = f"a name must be {problem}" if (problem := lfn_problem(lfn)) else ""
        if not why and not (below or self._is_sandbox(lfn) or lfn in self._expected_names):
            places = [f"below {directory}" for directory in dict.fromkeys(directories)]
            why = f"its outputs are {' or '.join(places or sorted(self._expected_names))}"
        if why:
            sentence = f"{shown(lfn)} is not an output of job {self.job.pk}: {why}."
            raise NotOutputOfJobError(sentence, errors={"lfn": [sentence]})

    def _is_sandbox(self, lfn: str) -> bool:
        """Return whether a name is the output sandbox's, of any job, or one that it gets instead."""
        wanted = sandbox_lfn(self._directory, job_id=self.job.pk)
        return lfn == wanted or (is_below(lfn, self.own_directory) and lfn.endswith(wanted.rpartition("/")[2]))

    def refuse_element(self, name: str, *, lfns: Iterable[str]) -> None:
        """Refuse a storage element to which these outputs of the job do not go."""
        named = self.job.description.get("output_se")
        own = [named] if named else [element.name for element in self._elements]
        if not named and all(map(self._is_sandbox, lfns)):
            own += [element.name for element in elements_for_sandbox(self.match)]
        if name not in own:
            expected = " or ".join(own) or "none, for the site has no storage element"
            sentence = f"Output of job {self.job.pk} goes to {expected}, not to {shown(name)}."
            raise NotOutputOfJobError(sentence, errors={"storage_element": [sentence]})

    def count_names(self, new: int) -> None:
        """Count names that no lease has used before.

        Raises:
            TooManyOutputsError: they are too many for one lease.
        """
        within = Match.objects.filter(pk=self.match.pk, output_names__lte=_MOST_NAMES - new)
        if new and not within.update(output_names=F("output_names") + new):
            raise TooManyOutputsError(
                f"Job {self.job.pk} may have {MAX_OUTPUT_FILES} output files; no more names are reserved for it."
            )

    def content(self, file: OutputFile, storage_element: str) -> LeftContent:
        """Return what the lease may leave of a file."""
        return LeftContent(
            match=self.match.pk.hex,
            requested=file.lfn,
            storage_element=storage_element,
            size_bytes=file.size_bytes,
            checksum=file.checksum,
        )

    def may_overwrite(self, row: OutputName) -> bool:
        """Return whether the job's owner asked for the replacement of registered files of his own, as this one is."""
        if not self.job.description.get("overwrite"):
            return False
        if row.writer_id is not None:
            return row.owner_id == self.job.owner_id
        return is_own(row.lfn, directories=[home_of(self.job.owner.username, vo=self.job.vo.name)])


class _Names:
    """The rows of some logical names, locked, with what is registered under them."""

    def __init__(self, lease: _Lease, lfns: Collection[str]) -> None:
        self._lease, vo = lease, lease.job.vo
        # A row is made first, so that of two leases that reserve a name at once, one waits for the other. In the order
        # of names, which is that of all that lock several, so that they do not deadlock.
        ordered = sorted(lfns)
        lease.count_names(len(ordered) - OutputName.objects.filter(vo=vo, lfn__in=ordered).count())
        OutputName.objects.bulk_create([OutputName(vo=vo, lfn=lfn) for lfn in ordered], ignore_conflicts=True)
        rows = OutputName.objects.filter(vo=vo, lfn__in=ordered).order_by("lfn").select_for_update(of=("self",))
        self._rows = {row.lfn: row for row in rows}
        # Read under the locks: a lease that ends later only refuses a name once too often.
        self._checksums: dict[str, dict[str, str]] = {}
        replicas = Replica.objects.filter(vo=vo, lfn__in=ordered)
        for lfn, element, checksum in replicas.values_list("lfn", "storage_element__name", "checksum"):
            self._checksums.setdefault(lfn, {})[element] = checksum
        reserving = {row.match_id for row in self._rows.values() if row.match_id not in {None, lease.match.pk}}
        still_open = Match.objects.filter(pk__in=reserving, ended_at__isnull=True)
        self._storing: dict[UUID, int] = dict(still_open.values_list("pk", "job_id"))

    def of(self, lfn: str) -> OutputName:
        """Return the row of a name."""
        return self._rows[lfn]

    def reserve(self, lfn: str, content: LeftContent, *, exists: bool) -> str:
        """Reserve a name for a content; return why it may not be, as the rest of a sentence, empty if it may.

        *exists* says that the storage element has another file of this name; then it is given back.
        """
        row = self.of(lfn)
        if exists:
            if row.match_id == self._lease.match.pk:
                # What the lease may have stored is remembered: a call whose answer was lost may yet be carried out.
                row.match_id, row.replaces = None, False
            return self._why_others(row) or "the storage element has another file of this name"
        own = [each for each in row.contents if each["match"] == content["match"]]
        if row.match_id == self._lease.match.pk and own and content not in own:
            return "another file of the job has this name"
        if reason := self._why_others(row):
            return reason
        # Only where the file is registered: at another element a file of this name is somebody else's.
        row.replaces = content["storage_element"] in self._checksums.get(lfn, {})
        row.match_id = self._lease.match.pk
        row.contents = [content, *(each for each in row.contents if each != content)][:_MAX_CONTENTS]
        return ""

    def reserved(self, lfn: str, stored_as: str, *, reason: str, at: str) -> ReservedName:
        """Return a name that was reserved with what the pilot must know of it."""
        row, own = self.of(stored_as), self._lease.match.pk.hex
        earlier = [each for each in row.contents if each["match"] != own and each["storage_element"] == at]
        return ReservedName(
            lfn=lfn,
            stored_as=stored_as,
            reason=reason,
            upload=_upload_name(stored_as, own),
            replaces=row.replaces,
            earlier=earlier,
            leftovers=[_upload_name(stored_as, each["match"]) for each in earlier],
        )

    def save(self) -> None:
        """Write what was reserved and released."""
        OutputName.objects.bulk_update(self._rows.values(), ["match_id", "replaces", "contents"])

    def why_not_registered(self, replica: GivenReplica) -> str:
        """Return why a stored file may not be registered, as the rest of a sentence; empty: it may."""
        row = self.of(replica.lfn)
        if row.match_id != self._lease.match.pk:
            return self._why_others(row)
        # A manager may have registered another file since the name was reserved.
        others = set(self._checksums.get(replica.lfn, {}).values()) - {replica.checksum or None}
        return _REGISTERED_MEANWHILE if others and not self._may_replace(row) else ""

    def is_registered_at(self, replica: GivenReplica) -> bool:
        """Return whether a replica is known at the same storage element."""
        return replica.storage_element in self._checksums.get(replica.lfn, {})

    def _may_replace(self, row: OutputName) -> bool:
        return row.writer_id == self._lease.job.pk or self._lease.may_overwrite(row)

    def _why_others(self, row: OutputName) -> str:
        if row.match_id in self._storing:
            return f"job {self._storing[row.match_id]} is storing a file of this name"
        if row.lfn in self._checksums and not self._may_replace(row):
            return f"it is a file of job {row.writer_id}" if row.writer_id else "a file of this name is registered"
        return ""


def _reserve(lease: _Lease, files: Sequence[OutputFile], storage_element: str, *, most: int) -> Sequence[ReservedName]:
    """Reserve for each file the first free name of the first *most* candidates, which are locked at once.

    Raises:
        NameTakenError: none of them is free.
    """
    candidates = {file.lfn: _candidates(file.lfn, lease)[:most] for file in files}
    names = _Names(lease, {name for of_file in candidates.values() for name in of_file})
    found: dict[str, ReservedName] = {}
    reasons: dict[str, str] = {}
    # What one file is called in its job goes before what another one may be called instead.
    for turn, file in product(range(most), files):
        if file.lfn in found:
            continue
        stored_as = candidates[file.lfn][turn]
        if reason := names.reserve(
            stored_as, lease.content(file, storage_element), exists=file.exists and stored_as == file.lfn
        ):
            reasons.setdefault(file.lfn, reason)
        else:
            why = reasons.get(file.lfn, "")
            found[file.lfn] = names.reserved(file.lfn, stored_as, reason=why, at=storage_element)
    for file in files:
        if file.lfn not in found:
            raise NameTakenError(f"No name for {shown(file.lfn)} is free: {reasons[file.lfn]}.")
    names.save()
    return [found[file.lfn] for file in files]


#: Names that _candidates returns.
_CANDIDATES: Final = 3
#: New names of one lease.
_MOST_NAMES: Final = MAX_OUTPUT_FILES * _CANDIDATES


def _candidates(lfn: str, lease: _Lease) -> tuple[str, str, str]:
    """Return the names that a file may get: as requested, in the job's own directory, in one of the lease's own."""
    base = lfn.rpartition("/")[2]
    last = f"{lease_directory(lease.own_directory, match_id=lease.match.pk)}/{_digest(lfn)}-"
    return lfn, _fitting(f"{lease.own_directory}/", base), _fitting(last, base)


def _fitting(directory: str, base: str) -> str:
    """Return a logical name; of a base name that is too long, the end."""
    return directory + base[-(MAX_LFN - len(directory)) :]


def _upload_name(lfn: str, match: str) -> str:
    """Return the name to which a lease stores the bytes of a file first: beside it, so that a move stays in a place."""
    return f"{lfn.rpartition('/')[0]}/{UPLOAD_PREFIX}{match}-{_digest(lfn)}"


def _digest(lfn: str) -> str:
    return sha256(lfn.encode()).hexdigest()[:8]
