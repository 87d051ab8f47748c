"""The data of a leased job: where its pilot reads each file, where its output goes, and what opens both (PIL §2.1)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction

from matching.models import Match
from matching.services import leases
from matching.services.claim import Claimed
from resources.domain.files import GivenReplica, is_below, lfn_problem, shown
from resources.models import StorageElement
from resources.queries.replicas import Copy, copies, elements_of_site
from resources.services.replicas import record, supersede
from wms.jobs.domain.data import output_directory
from wms.jobs.domain.lifecycle import HELD_BY_A_PILOT
from wms.jobs.models import Job
from wms.kernel.errors import ConflictError, RejectedError
from wms.kernel.secrets import UndecipherableError, decrypt

logger = logging.getLogger(__name__)

#: Of one file: a pilot that can read none of the nearest five had better let the job run elsewhere.
MAX_COPIES: Final = 5


class NotOutputOfJobError(RejectedError):
    """A file that the job did not ask to be stored, or not there."""

    code = "not_output_of_job"


class JobIsOverError(ConflictError):
    """The job was killed or rescheduled meanwhile; nothing of its output counts."""

    code = "job_is_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """Where a job's output data go."""

    storage_element: str
    #: Of the storage element; a logical name comes after it.
    url: str
    #: Logical directory.
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseData:
    """All that a pilot needs for the data of one job."""

    #: Copies of each file, the nearest first, MAX_COPIES at most; empty: it has none any more.
    input_files: Mapping[str, Sequence[Copy]]
    #: None: there is no output, or no place for it.
    output: OutputPlace | None
    #: {storage element: what opens it}, of those named above that want something.
    credentials: Mapping[str, str]


def data_of(found: Sequence[Claimed]) -> Mapping[UUID, LeaseData]:
    """Return {match: its data} of the leases, all of one pilot, whose jobs read or write data; a second read.

    The nearest copies are those at the pilot's own site; of the others those that can be read from afar come first,
    and each time the order is that of names.
    """
    wanting = [lease for lease in found if lease.description["input_data"] or lease.description["output_data"]]
    if not wanting:
        return {}
    matches = Match.objects.select_related("queue__ce", "job__vo", "job__owner").in_bulk([m.match_id for m in wanting])
    match = matches[wanting[0].match_id]
    own = [] if match.queue is None else elements_of_site(match.queue.ce.site_id)
    lfns = {lfn for lease in wanting for lfn in lease.description["input_data"]}
    nearest = _nearest(copies(match.job.vo_id, lfns), own={element.pk for element in own}) if lfns else {}
    return {
        lease.match_id: _data(lease.description, matches[lease.match_id].job, nearest=nearest, own=own)
        for lease in wanting
    }


def register_output(match_id: UUID, replica: GivenReplica) -> None:
    """Note that the pilot has stored an output file of its job; repeating it is harmless.

    It replaces a file of the same name: copies of that one, at other storage elements too, are forgotten.

    Raises:
        LeaseEndedError, PilotRevokedError: see ``leases.open_job``.
        JobIsOverError: nothing of the job's output counts any more.
        NotOutputOfJobError: the file, or the storage element, is none of this job's.
        ReplicasError: there is no such storage element.
    """
    with transaction.atomic(durable=True):
        job = leases.open_job(match_id)
        if job.status not in HELD_BY_A_PILOT:
            raise JobIsOverError(f"Job {job.pk} is {job.status}; its output is not wanted any more.")
        match = Match.objects.select_related("queue__ce").get(pk=match_id)
        _refuse_others_files(job, match, replica)
        record([replica], vo=job.vo)
        supersede(replica, vo=job.vo)
    logger.info("job.output_registered", extra={"job_id": job.pk, "lfn": replica.lfn})


def _refuse_others_files(job: Job, match: Match, replica: GivenReplica) -> None:
    directory = _directory(job)
    problem = lfn_problem(replica.lfn)
    if not job.description["output_data"] or problem or not is_below(replica.lfn, directory):
        sentence = f"{shown(replica.lfn)} is no output of job {job.pk}: these are files below {directory}."
        raise NotOutputOfJobError(sentence, errors={"lfn": [sentence]})
    named = job.description.get("output_se")
    own = [] if match.queue is None else [element.name for element in elements_of_site(match.queue.ce.site_id)]
    if replica.storage_element not in ([named] if named else own):
        expected = named or " or ".join(own) or "none, for the site has no storage element"
        sentence = f"Output of job {job.pk} goes to {expected}, not to {shown(replica.storage_element)}."
        raise NotOutputOfJobError(sentence, errors={"storage_element": [sentence]})


def _nearest(found: Iterable[Copy], *, own: set[int]) -> Mapping[str, Sequence[Copy]]:
    def distance(copy: Copy) -> tuple[bool, bool, str]:
        return copy.storage_element_id not in own, copy.url.startswith("file:"), copy.storage_element

    nearest: dict[str, list[Copy]] = {}
    for copy in sorted(found, key=distance):
        of_file = nearest.setdefault(copy.lfn, [])
        if len(of_file) < MAX_COPIES:
            of_file.append(copy)
    return nearest


def _data(
    description: Mapping[str, object],
    job: Job,
    *,
    nearest: Mapping[str, Sequence[Copy]],
    own: Sequence[StorageElement],
) -> LeaseData:
    files = {lfn: nearest.get(lfn, ()) for lfn in job.description["input_data"]}
    element = _output_element(description, own=own)
    used = {copy.storage_element for of_file in files.values() for copy in of_file}
    place = None
    if element is not None:
        used.add(element.name)
        place = OutputPlace(storage_element=element.name, url=element.url, path=_directory(job))
    return LeaseData(input_files=files, output=place, credentials=_credentials(used))


def _output_element(description: Mapping[str, object], *, own: Sequence[StorageElement]) -> StorageElement | None:
    if not description["output_data"]:
        return None
    if description.get("output_se"):
        return StorageElement.objects.filter(name=description["output_se"]).first()
    return next(iter(own), None)


def _directory(job: Job) -> str:
    path = job.description.get("output_path")
    return output_directory(path, vo=job.vo.name, username=job.owner.username, job_id=job.pk)


def _credentials(names: Iterable[str]) -> dict[str, str]:
    """Return what opens those of the storage elements that want a credential; only who has a lease is told."""
    found = {}
    elements = StorageElement.objects.filter(name__in=list(names)).exclude(credential_encrypted=b"")
    for element in elements.order_by("name"):
        try:
            found[element.name] = decrypt(element.credential_encrypted)
        except UndecipherableError:
            logger.exception("storage_element.credential_unreadable", extra={"storage_element": element.name})
    return found
