"""The protocol between the server and its pilots: all that both sides must say alike."""

from __future__ import annotations

from typing import NamedTuple

#: Version of the protocol, in the configuration of a pilot: an agent of another one leaves. Increased when agents of
#: earlier versions can no longer work with this server.
PROTOCOL = 1
#: Prefix of the addresses of the REST interface (docs/rest.md). The installer of the agent, which imports nothing,
#: repeats it; a test compares.
API_V1 = "/api/v1/"

#: Prefix of a pilot's own token; the agent exchanges any other token for one.
PILOT_TOKEN_PREFIX = "wmsp_"  # noqa: S105 - not a secret
#: Header of an answer without a job: a sentence on how the offer was narrowed, by an unknown queue or smaller slots.
WHY_HEADER = "X-WMS-Why"

#: Statuses of a job that its pilot reports.
RUNNING, COMPLETING = "Running", "Completing"
#: Commands for the pilot of a job, repeated until they are acknowledged: stop the payload, send the last lines of its
#: output, take no more jobs.
KILL, PEEK, DRAIN = "kill", "peek", "drain"
#: Exit code by which a payload requests to run elsewhere (PIL; also of DIRAC's job wrapper).
RESCHEDULE_EXIT_CODE = 222
#: Exit codes of an executable that cannot be run, or is not found, as in a shell.
NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE = 126, 127
#: Fault in the report of a job's end: the node lacks what the job itself requires, and is not blamed.
FAULT_OF_JOB = "job"
#: Fault: the pilot's process for the job died, possibly because of the payload.
FAULT_OF_SUPERVISOR = "supervisor"

#: Separations of a payload's Unix identity from the pilot's (PIL §3.1).
IDENTITY_NONE, IDENTITY_ENVIRONMENT, IDENTITY_SUDO = "none", "environment", "sudo"
#: What the pilot does with input data.
DOWNLOAD, IN_PLACE = "download", "in_place"
#: Tag of jobs that occupy their node alone.
WHOLE_NODE_TAG = "WholeNode"
#: Prefix of an entry of the output data that is a logical name.
LFN_PREFIX = "LFN:"
#: Prefix of the reference of a sandbox, before its digest.
SANDBOX_PREFIX = "sha256:"
#: File name of an output sandbox, with %s for the job's id.
OUTPUT_SANDBOX_NAME = "job-%s-output.tar.gz"

#: Error codes that an agent tells apart: of pilots that may do nothing any more, …
PILOT_REVOKED, PILOT_ENDED = "pilot_revoked", "pilot_ended"
#: … that get no more jobs, …
PILOT_DRAINED = "pilot_drained"
#: … of a lease that has ended, …
LEASE_ENDED = "lease_ended"
#: … of an object or address that does not exist, …
NOT_FOUND = "not_found"
#: … of a queue that is not configured, …
UNKNOWN_PLACE = "unknown_place"
#: … of an output file whose name another file has, …
NAME_TAKEN = "name_taken"
#: … and, with status 503, of a match that could not be decided in time.
THROTTLE_BUSY = "throttle_busy"

#: Characters of a name or batch id, of the reason why a pilot leaves, and of a minor status.
MAX_NAME = 255
#: Characters of the detail of a check or flaw of the node.
MAX_DETAIL = 1000
#: Characters of one part of a pilot's log.
MAX_LOG_CHUNK = 64 * 1024
#: Characters of a logical file name.
MAX_LFN = 255
#: Output files of one job.
MAX_OUTPUT_FILES = 500
#: Jobs of one match.
MAX_JOBS = 100
#: Largest number in an offer or exit code: that of PostgreSQL's integer.
LARGEST_INTEGER = 2**31 - 1


class Usage(NamedTuple):
    """Resources that a payload has used so far; None: not measured."""

    #: Of all its processes.
    cpu_s: float | None = None
    #: Since its start.
    wall_s: float | None = None
    #: Resident, of all its processes.
    memory_mb: float | None = None
    #: Of its directory.
    disk_mb: float | None = None

    def as_record(self) -> dict[str, float]:
        """Return the measured values as fields of a report, rounded to 1/1000."""
        return {name: round(value, 3) for name, value in self._asdict().items() if value is not None}


class Tails(NamedTuple):
    """The last lines of output of a payload; None: as reported before."""

    std_output: str | None = None
    std_error: str | None = None

    def as_record(self) -> dict[str, str]:
        """Return the lines as fields of a report."""
        return {name: text for name, text in self._asdict().items() if text is not None}


#: No line is to be changed.
NO_TAILS = Tails()


class WatchdogMargins(NamedTuple):
    """Limits beyond which a pilot ends its payload, in the configuration of a pilot (PIL §2.1)."""

    #: Seconds between two checks of the payload.
    period_s: float = 10
    #: Times the CPU time or memory that the job requires: a little more harms no other job and saves many.
    cpu_factor: float = 1.1
    memory_factor: float = 1.1
    #: Free disk below which the payload is ended, as the pilot itself could no longer write its output.
    min_free_disk_mb: float = 500
    #: Stalled: less CPU per wall-clock time than this part, over so many seconds (DIRAC's watchdog: 5 % over 30
    #: minutes).
    stalled_s: float = 1800
    stalled_cpu_fraction: float = 0.05
    #: Longest window that a job may set; 0: any, or none.
    max_stalled_s: float = 86400
    #: Part of the window after which the job's owner is warned.
    stalled_warning_fraction: float = 0.5
    #: Part of a limit at which the job's owner is warned.
    warning_fraction: float = 0.9
    #: Size of standard output, and of standard error; 0: no limit.
    stream_max_mb: float = 1000
    #: Disk of a job that requires none, without its input; 0: all that the node has above min_free_disk_mb.
    unasked_disk_mb: float = 1000
    #: Processes for each processor of the job; 0: no limit.
    processes_per_core: float = 300


def output_sandbox_name(job_id: int) -> str:
    """Return the file name of a job's output sandbox, for upload and download."""
    return OUTPUT_SANDBOX_NAME % job_id
