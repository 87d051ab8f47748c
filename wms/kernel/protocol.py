"""The protocol between the server and its pilots: all that both sides must say alike.

It is packed into the pilot agent (pilots/agent_package.py): it imports only the standard library, and runs on Python
3.9.
"""

from __future__ import annotations

#: Version of the protocol, in the configuration of a pilot: an agent of another one leaves. Increased when agents of
#: earlier versions can no longer work with this server.
PROTOCOL = 1
#: Version of the agent, in its report on the node and in its User-Agent.
AGENT_VERSION = "0.1.0"

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
#: Prefix of an entry of the output data that is a logical name.
LFN_PREFIX = "LFN:"
#: Prefix of the reference of a sandbox, before its digest.
SANDBOX_PREFIX = "sha256:"

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
#: … and, with status 503, of a match that could not be decided in time.
THROTTLE_BUSY = "throttle_busy"


def output_sandbox_name(job_id: int) -> str:
    """Return the file name of a job's output sandbox, for upload and download."""
    return f"job-{job_id}-output.tar.gz"
