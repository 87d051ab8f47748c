"""Rules for the data of jobs: sites for their input data, and directories for their output data."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from resources.domain.files import canonical_lfn, is_below, lfn_problem, without_prefix
from wms.wire.protocol import LFN_PREFIX

#: Minor status of a job without a possible site for its input data.
WAITS_FOR_REPLICAS: Final = "Waits for replicas of its input data"
#: Minor status of a job whose input data are available, but no place in a quota of waiting jobs.
WAITS_FOR_ROOM: Final = "Waits for room in a quota of waiting jobs"


def narrowed(
    sites: Collection[str], *, banned_sites: Collection[str], holding: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the sites where a job may run; empty: any; None: none, because of its input data (PIL §2.2).

    Args:
        sites: sites that the job names; empty: any.
        banned_sites: sites that the job bans.
        holding: sites with all of its input data; None: it has no input data.
    """
    if holding is None:
        return tuple(sites)
    named, banned = frozenset(sites), frozenset(banned_sites)
    left = tuple(site for site in holding if site not in banned and (not named or site in named))
    return left or None


def home_of(username: str, *, vo: str) -> str:
    """Return the logical directory of a user."""
    return canonical_lfn(f"/{vo}/user/{username[:1]}/{username}")


def output_directory(path: str | None, *, vo: str, username: str, job_id: int) -> str:
    """Return the logical directory of a job's output data: *path*, or by default one of the job's own."""
    return absolute(path or str(job_id), home=home_of(username, vo=vo))


def absolute(path: str, *, home: str) -> str:
    """Return an output path from the root; a relative one is below the home directory, as in DIRAC."""
    return path if path.startswith("/") else f"{home}/{path}"


def lfns_of_sandbox(input_sandbox: Iterable[str]) -> tuple[str, ...]:
    """Return the logical names in an input sandbox: files that are fetched from any site."""
    return tuple([lfn for entry in input_sandbox if (lfn := lfn_of_output(entry))])


def lease_directory(directory: str, *, match_id: UUID) -> str:
    """Return the logical directory, below that of a job, to which only one lease of it writes."""
    return f"{directory}/attempt-{match_id.hex[:8]}"


def canonical_output(entry: str) -> str:
    """Return an entry of the output data; a logical name is put into its stored form ``LFN:/vo/…``."""
    return entry if without_prefix(entry) == entry else f"{LFN_PREFIX}{canonical_lfn(entry)}"


def output_problem(entry: str) -> str:
    """Return the fault of the logical name in such an entry, as the end of a sentence; empty: no fault."""
    lfn = lfn_of_output(entry)
    if lfn and (problem := lfn_problem(lfn)):
        return f"must be {problem} after {LFN_PREFIX}"
    if entry == LFN_PREFIX:
        return "is not a logical name; write LFN:/vo/…/name"
    if any(character in lfn for character in "*?["):
        return "is a logical name, which cannot be a pattern; give the pattern without LFN:"
    return ""


def lfn_of_output(entry: str) -> str:
    """Return the logical name in an entry of the output data (``LFN:/vo/…``); empty: it has none."""
    return entry[len(LFN_PREFIX) :] if entry.startswith(LFN_PREFIX) else ""


def output_names(entries: Iterable[str], *, path: str | None) -> frozenset[str]:
    """Return the logical names of output data that are known before the job runs.

    Args:
        entries: of the output data: logical names, and names or patterns below *path*.
        path: logical directory that the job names; None: it has its own, to which no other job writes.
    """
    named = {lfn for entry in entries if (lfn := lfn_of_output(entry))}
    plain = [entry for entry in entries if not lfn_of_output(entry) and not any(sign in entry for sign in "*?[")]
    return frozenset(named | {canonical_lfn(f"{path}/{entry}") for entry in plain if path})


def sandbox_lfn(directory: str, *, job_id: int) -> str:
    """Return the logical name of an output sandbox too large for the server."""
    return f"{directory}/output_sandbox_{job_id}.tar.gz"


def is_own(path: str, *, directories: Iterable[str]) -> bool:
    """Return whether a logical directory is one of *directories*, or below one."""
    return any(path == directory or is_below(path, directory) for directory in directories)
