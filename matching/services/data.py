"""The data of a leased job: copies of input files, destination of the output, and credentials for both (PIL §2.1)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from matching.models import Match
from matching.services.claim import Claimed
from resources.domain.files import lfn_problem
from resources.models import StorageElement
from resources.queries.replicas import ReplicaCopy, copies, elements_of_site
from wms.jobs.domain.data import is_own, lease_directory, lfn_of_output, lfns_of_sandbox, output_directory
from wms.jobs.models import Job
from wms.jobs.queries import own_directories
from wms.kernel.secrets import UndecipherableError, decrypt

logger = logging.getLogger(__name__)

#: Copies of one file: if a pilot cannot read any of the nearest five, the job should run elsewhere.
MAX_COPIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """The destination of a job's output data."""

    storage_element: str
    #: Address of the storage element; logical names are appended.
    url: str
    #: Logical directory.
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseData:
    """The data description of one lease."""

    #: Copies of each file, nearest first, at most MAX_COPIES; empty: no copy is left.
    input_files: Mapping[str, Sequence[ReplicaCopy]]
    #: Those of the input sandbox, which are fetched whatever the policy for input data.
    sandbox_files: frozenset[str]
    #: None: the job has no output, or no storage element for it.
    destination: OutputPlace | None
    #: For agents of version 0.1.0, which reserve no names and replace what they find: a directory of this lease alone.
    #: None also if the job itself says where its output goes.
    output: OutputPlace | None
    #: {storage element: token}, of the elements above whose credential an operator gives to pilots.
    credentials: Mapping[str, str]


def data_of(leases: Sequence[Claimed]) -> Mapping[UUID, LeaseData]:
    """Return {match: its data} of those leases of one pilot whose jobs read or write data.

    Copies at the pilot's own site come first, then those that can be read remotely, each in the order of names.
    """
    wanting = [lease for lease in leases if _input_files(lease.description) or _may_store(lease.description)]
    if not wanting:
        return {}
    rows = Match.objects.select_related("queue__ce", "job__vo", "job__owner", "job__group", "job__stored_description")
    matches = rows.in_bulk([m.match_id for m in wanting])
    match = matches[wanting[0].match_id]
    own = elements_there(match)
    lfns = {lfn for lease in wanting for lfn in _input_files(lease.description)}
    nearest = _nearest(copies(match.job.vo_id, lfns), own={element.pk for element in own}) if lfns else {}
    return {lease.match_id: _data(lease, matches[lease.match_id].job, nearest=nearest, own=own) for lease in wanting}


def logical_names(job: Job) -> frozenset[str]:
    """Return the logical names that a job gives to files of its output data."""
    return frozenset(lfn for entry in job.description["output_data"] if (lfn := lfn_of_output(entry)))


def others_names(job: Job) -> frozenset[str]:
    """Return those of these names whose directory the job may not, or no longer, write to.

    Jobs submitted before such names had a meaning were not checked for them.
    """
    names = logical_names(job)
    directories = own_directories(job.owner, group=job.group, vo=job.vo) if names else ()
    return frozenset(
        lfn for lfn in names if lfn_problem(lfn) or not is_own(lfn.rpartition("/")[0], directories=directories)
    )


def elements_there(match: Match) -> Sequence[StorageElement]:
    """Return the storage elements of the job's VO at the pilot's site; none if the site is unknown."""
    site_id = match.job.site_id if match.queue is None else match.queue.ce.site_id
    return [] if site_id is None else elements_of_site(site_id, vo_id=match.job.vo_id)


def elements_for_sandbox(match: Match) -> Sequence[StorageElement]:
    """Return the storage elements that may get an output sandbox too large for the server, the best first.

    The one that the job names; else those at the pilot's site; else any that serve the VO. Of those that the job does
    not name only such as need no credential: the lease has none for the others, and a payload could ask for it.
    """
    serving = StorageElement.objects.serving(match.job.vo_id).order_by("name")
    if named := match.job.description.get("output_se"):
        return list(serving.filter(name=named))
    there = [element for element in elements_there(match) if not element.credential_encrypted]
    return there or list(serving.filter(credential_encrypted=b""))


def _may_store(description: Mapping[str, object]) -> bool:
    """Return whether a job is told where its files go; others ask if an output sandbox is too large for the server."""
    return bool(description["output_data"] or description.get("output_se"))


def _input_files(description: Mapping[str, Any]) -> list[str]:
    """Return the input data and the files of the catalogue in the input sandbox, each once."""
    return list(dict.fromkeys([*description["input_data"], *lfns_of_sandbox(description["input_sandbox"])]))


def _nearest(replicas: Iterable[ReplicaCopy], *, own: set[int]) -> Mapping[str, Sequence[ReplicaCopy]]:
    def distance(copy: ReplicaCopy) -> tuple[bool, bool, str]:
        return copy.storage_element_id not in own, copy.url.startswith("file:"), copy.storage_element

    nearest: dict[str, list[ReplicaCopy]] = {}
    for copy in sorted(replicas, key=distance):
        of_file = nearest.setdefault(copy.lfn, [])
        if len(of_file) < MAX_COPIES:
            of_file.append(copy)
    return nearest


def _data(
    lease: Claimed,
    job: Job,
    *,
    nearest: Mapping[str, Sequence[ReplicaCopy]],
    own: Sequence[StorageElement],
) -> LeaseData:
    files = {lfn: nearest.get(lfn, ()) for lfn in _input_files(job.description)}
    sandbox_files = frozenset(files) - frozenset(job.description["input_data"])
    element = _output_element(lease.description, own=own, vo_id=job.vo_id)
    if element is not None and (others := others_names(job)):
        logger.warning("job.output_not_its_own", extra={"job_id": job.pk, "lfns": sorted(others)})
        element = None
    used = {copy.storage_element for of_file in files.values() for copy in of_file}
    place = output = None
    if element is not None:
        used.add(element.name)
        place = OutputPlace(storage_element=element.name, url=element.url, path=directory_of(job))
        if not job.description.get("output_path") and not logical_names(job):
            output = replace(place, path=lease_directory(place.path, match_id=lease.match_id))
    return LeaseData(
        input_files=files,
        sandbox_files=sandbox_files,
        destination=place,
        output=output,
        credentials=credentials_of_lease(used, vo_id=job.vo_id),
    )


def _output_element(
    description: Mapping[str, object], *, own: Sequence[StorageElement], vo_id: int
) -> StorageElement | None:
    if not _may_store(description):
        return None
    if description.get("output_se"):
        return StorageElement.objects.serving(vo_id).filter(name=description["output_se"]).first()
    return next(iter(own), None)


def directory_of(job: Job) -> str:
    """Return the logical directory of a job's output data, those apart that have a logical name."""
    path = job.description.get("output_path")
    return output_directory(path, vo=job.vo.name, username=job.owner.username, job_id=job.pk)


def credentials_of_lease(names: Iterable[str], *, vo_id: int) -> dict[str, str]:
    """Return {storage element: bearer token} of those elements whose credential the lease gets.

    A pilot gets the one credential of the storage element, and only if an operator allows it
    (``credential_for_pilots``): whoever can read it on a worker node can read and write everything that it opens.
    Tokens for the files of one lease and a short time would be made here.

    Args:
        names: of the storage elements that the lease names.
        vo_id: of the leased job; an element that does not serve it is left out.
    """
    elements = StorageElement.objects.serving(vo_id).filter(name__in=list(names), credential_for_pilots=True)
    tokens = {}
    for element in elements.exclude(credential_encrypted=b"").order_by("name"):
        try:
            tokens[element.name] = decrypt(element.credential_encrypted)
        except UndecipherableError:
            logger.exception("storage_element.credential_unreadable", extra={"storage_element": element.name})
    return tokens
