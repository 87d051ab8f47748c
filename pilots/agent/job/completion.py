"""The end of a job: its output goes to the server, then the last report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.data import output_spool
from pilots.agent.data.storage import StorageError
from pilots.agent.job import sandbox
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.sandbox import ArchiveLimits, OutputTooLargeError
from pilots.agent.job.stage_out import NoOutputDataError, present_files, store_file, store_output_data
from pilots.agent.job.workspace import Workspace
from pilots.agent.server.api import MAX_MINOR, Usage
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import GivenUpError, RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import ENDED, EXPIRING, KILLED, STOPPED, Lease, LeaseEndedError
from pilots.agent.server.retry import InterruptedCallError

#: The status Completing is good to know, and not worth waiting for.
_SHORT_S = 5.0
#: Somebody waits for the acknowledgement of an order to kill.
_OUTPUT_OF_KILLED_S = 20.0
_OUTPUT_S = 900.0
#: Of standard output and error each, when all the output is too large.
_TAIL_BYTES = 1024 * 1024
#: Of a server's refusal; what is said after it must also fit.
_SAID = 100
#: Of the reason why a job ended, however much is to be said of its output.
_LEAST_SAID = 30
#: Archives on their way.
_PACKED, _DATA, _WHOLE = "output.tar.gz", "output-data.tar.gz", "whole-output.tar.gz"
#: Of an output sandbox at a storage element, whose own limit counts; so does the disk.
_BOUNDLESS = ArchiveLimits(packed_bytes=2**63, unpacked_bytes=2**63)
_LOST = ", the rest is lost"
#: Missing files that are named, and characters of each: a minor status is short.
_MOST_NAMED, _LONG_NAME = 3, 40
#: What ended the job is what it asks for itself; that tells nothing of the node.
OF_JOB = "job"
#: The process that saw to the job died; its payload may be why.
OF_SUPERVISOR = "supervisor"
Result = TypeVar("Result")

_UNANSWERED = (UnreachableError, MalformedAnswerError, InterruptedCallError, GivenUpError)


@dataclass(frozen=True)
class Conclusion:
    """How a job ended, as it is to be reported.

    Attributes:
        exit_code: None: the payload had none.
        minor: why, for its owner; None: the exit code says it.
        reason: why it was stopped from outside (lease.ENDED and so on); None: it was not.
        ran: whether the payload was started, so that there may be output.
        fault: OF_JOB when the node does not have what the job itself asks for; None: nothing is said of that.
    """

    exit_code: int | None
    minor: str | None = None
    reason: str | None = None
    ran: bool = False
    fault: str | None = None


def _missing(directory: Path, patterns: Sequence[str]) -> str:
    """Return which entries of the output sandbox match no file, as a short sentence; empty: each does."""
    absent = [pattern for pattern in dict.fromkeys(patterns) if not sandbox.chosen(directory, [pattern])]
    if not absent:
        return ""
    # The server refuses texts with control characters, and with them the result of the job.
    printable = ["".join(each if each.isprintable() else "?" for each in name) for name in absent[:_MOST_NAMED]]
    named = ", ".join(name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}…" for name in printable)
    more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
    return f"output sandbox: not found: {named}{more}"


def _both(conclusion: Conclusion, trouble: str) -> str:
    """Return the minor status of a job whose output met with *trouble*, which may end with where the output is."""
    code = conclusion.exit_code
    why = conclusion.minor or ("Execution complete" if code == 0 else f"Exited with code {code}")
    most = max(MAX_MINOR - len("; ") - len(trouble), _LEAST_SAID)
    return f"{why if len(why) <= most else f'{why[: most - 1]}…'}; {trouble}"


class Delivery:
    """Of one job."""

    def __init__(
        self, context: JobContext, lease: Lease, *, workspace: Workspace, configuration: PilotConfiguration
    ) -> None:
        self._context = context
        self._lease = lease
        self._workspace = workspace
        #: Where all the output is that was too much for the server, as the end of a sentence; empty: nowhere.
        self._all_kept = ""
        self._limits = ArchiveLimits(
            packed_bytes=configuration.sandbox_max_bytes, unpacked_bytes=configuration.sandbox_max_unpacked_bytes
        )

    def deliver(self, conclusion: Conclusion, *, usage: Usage, last_lines: str | None) -> None:
        """Tell the server; when it cannot be told, the lease runs out there and the job goes back to its queue.

        Args:
            conclusion: how the job ended.
            usage: over the payload's whole life.
            last_lines: of its standard output, for those who only peek; None: it was not started.
        """
        if conclusion.reason == ENDED:
            return  # nothing more is reported, its job may already be another pilot's
        try:
            if conclusion.ran and conclusion.reason is None:
                self._say_completing(usage, last_lines)
                conclusion = self._store_data(conclusion)
            output, trouble = self._deliver_output(conclusion)
            self._acknowledge_kills(usage)
            status = self._finish(conclusion, usage=usage, output=output, trouble=trouble)
            log.event("job.finished", job=self._lease.job.id, status=status)
        except LeaseEndedError as error:
            log.event("lease.ended", job=self._lease.job.id, error=error)
        except (*_UNANSWERED, RefusedError) as error:
            log.event("job.not_reported", job=self._lease.job.id, error=error)

    # ---- output

    def _deliver_output(self, conclusion: Conclusion) -> tuple[str | None, str | None]:
        """Return (reference of what was stored, what was wrong with it); None for nothing."""
        # A job that is handed back runs again from its start: what it wrote so far is of no use.
        if not conclusion.ran or conclusion.reason in {STOPPED, EXPIRING}:
            return None, None
        patience_s = _OUTPUT_OF_KILLED_S if conclusion.reason == KILLED else _OUTPUT_S
        try:
            return self._store_output(conclusion, give_up_at=monotonic() + patience_s)
        except _UNANSWERED as error:
            log.event("output.not_stored", job=self._lease.job.id, error=error)
            return None, f"the output could not be uploaded{self._all_kept or self._kept(_PACKED, conclusion)}"
        except RefusedError as error:
            log.event("output.refused", job=self._lease.job.id, error=error)
            where = self._all_kept or self._kept(_PACKED, conclusion)
            return None, f"the output was refused: {error.detail[:_SAID]}{where}"
        except OSError as error:
            log.event("node.disk_trouble", error=error)
            return None, f"the output could not be packed: {error.strerror}"

    def _kept(self, name: str, conclusion: Conclusion) -> str:
        """Keep an archive on the node that no server takes; return where, as the end of a sentence."""
        if conclusion.reason is not None:
            return ""  # who killed the job does not ask for its output
        where = output_spool.keep(
            self._workspace.scratch / name,
            work_directory=self._context.work_directory,
            name=f"job-{self._lease.job.id}-{name}",
        )
        return f"; it is kept at {where}" if where else ""

    def _kept_data(self, conclusion: Conclusion) -> str:
        files = present_files(self._workspace.job, self._lease.data.output_files)
        return self._packed_and_kept(files, _DATA, conclusion) if files else ""

    def _packed_and_kept(self, files: Sequence[tuple[Path, str]], name: str, conclusion: Conclusion) -> str:
        most = ArchiveLimits(packed_bytes=output_spool.MOST_BYTES, unpacked_bytes=output_spool.MOST_BYTES)
        try:
            sandbox.pack(
                self._workspace.job, files, into=self._workspace.scratch / name, limits=most,
                give_up=lambda: self._better_to_do(conclusion.reason),
            )  # fmt: skip
        except (OSError, OutputTooLargeError, GivenUpError) as error:
            log.event("output.not_kept", job=self._lease.job.id, archive=name, error=error)
            return ""
        return self._kept(name, conclusion)

    def _store_data(self, conclusion: Conclusion) -> Conclusion:
        """Store the output data of a payload that ended well; a job that cannot has failed, or is handed back."""
        if conclusion.exit_code != 0:
            return conclusion
        give_up_at = monotonic() + _OUTPUT_S

        def persistently(what: str, attempt: Callable[[], Result]) -> Result:
            return self._persistently(
                what, attempt, give_up_at=give_up_at, interrupted=lambda: self._better_to_do(None)
            )

        try:
            store_output_data(
                self._context, self._lease, self._workspace.job,
                persistently=persistently, give_up=lambda: self._better_to_do(None),
            )  # fmt: skip
        except (InterruptedCallError, GivenUpError):
            reason = self._context.order(self._lease)
            return replace(conclusion, exit_code=None, minor="The output data were not all stored", reason=reason)
        except (
            NoOutputDataError,
            StorageError,
            UnreachableError,
            MalformedAnswerError,
            RefusedError,
            OSError,
        ) as error:
            said = error.detail if isinstance(error, RefusedError) else error
            said = error.strerror or error if isinstance(error, OSError) else said
            log.event("output_data.not_stored", job=self._lease.job.id, error=error)
            where = "" if isinstance(error, NoOutputDataError) else self._kept_data(conclusion)
            said = str(said)[:_SAID] if where else said
            return replace(conclusion, exit_code=None, minor=f"Output data could not be stored: {said}{where}")
        return conclusion

    def _say_completing(self, usage: Usage, last_lines: str | None) -> None:
        def once() -> None:
            self._context.server.report_status(self._lease, status="Completing")
            # A short job ends between two heartbeats: without this one nobody could peek at what it wrote.
            self._context.server.heartbeat(self._lease, usage=usage, std_output=last_lines, acknowledged=())

        try:
            self._persistently(
                "status.completing", once, give_up_at=monotonic() + _SHORT_S,
                interrupted=lambda: self._better_to_do(None),
            )  # fmt: skip
        except (*_UNANSWERED, RefusedError) as error:
            log.event("status.not_reported", job=self._lease.job.id, error=error)

    def _store_output(self, conclusion: Conclusion, *, give_up_at: float) -> tuple[str, str | None]:
        job, directory, reason = self._lease.job, self._workspace.job, conclusion.reason
        packed = self._workspace.scratch / _PACKED
        missing = _missing(directory, job.output_sandbox) if reason is None else ""
        files = sandbox.chosen(directory, [*job.output_sandbox, job.std_output, job.std_error])
        try:
            sandbox.pack(
                directory, files, into=packed, limits=self._limits, give_up=lambda: self._better_to_do(reason)
            )  # fmt: skip
            return self._store(packed, give_up_at=give_up_at, reason=reason), missing or None
        except OutputTooLargeError as error:
            trouble = f"output sandbox over the limit of {error}"
        except RefusedError as error:
            trouble = f"the output was refused ({error.detail[:_SAID]})"
        log.event("output.reduced", job=job.id, trouble=trouble)
        elsewhere = self._stored_at_element(files, give_up_at=give_up_at) if reason is None else ""
        if reason is None and not elsewhere:
            self._all_kept = self._packed_and_kept(files, _PACKED, conclusion)
        streams = sandbox.chosen(directory, [job.std_output, job.std_error])
        tail_bytes = min(_TAIL_BYTES, self._limits.packed_bytes // 4)
        sandbox.pack_tails(directory, streams, into=packed, tail_bytes=tail_bytes)
        where = elsewhere or f"only the ends of standard output and error were stored{self._all_kept or _LOST}"
        said = "; ".join(sentence for sentence in (trouble, where, missing) if sentence)
        return self._store(packed, give_up_at=give_up_at, reason=reason), said

    def _stored_at_element(self, files: Sequence[tuple[Path, str]], *, give_up_at: float) -> str:
        """Store all the output at the storage element that the job names; return where, or nothing if it cannot be."""
        place, job = self._lease.data.output, self._lease.job
        if place is None or place.storage_element != job.output_se:
            return ""
        packed = self._workspace.scratch / _WHOLE
        lfn = f"{place.path}/output_sandbox_{job.id}.tar.gz"

        def persistently(what: str, attempt: Callable[[], Result]) -> Result:
            return self._persistently(
                what, attempt, give_up_at=give_up_at, interrupted=lambda: self._better_to_do(None)
            )

        try:
            sandbox.pack(
                self._workspace.job, files, into=packed, limits=_BOUNDLESS,
                give_up=lambda: self._better_to_do(None),
            )  # fmt: skip
            with packed.open("rb") as file:
                store_file(
                    self._context, self._lease, file, lfn, place,
                    persistently=persistently, give_up=lambda: self._better_to_do(None),
                )  # fmt: skip
        except (*_UNANSWERED, OutputTooLargeError, StorageError, RefusedError, OSError) as error:
            log.event("output.not_stored_at_element", job=job.id, storage_element=place.storage_element, error=error)
            return ""
        finally:
            packed.unlink(missing_ok=True)
        return f"all of it is stored as LFN:{lfn} at {place.storage_element}"

    def _store(self, packed: Path, *, give_up_at: float, reason: str | None) -> str:
        def once() -> str:
            return self._context.server.store(self._lease, file=packed, give_up=lambda: self._better_to_do(reason))

        return self._persistently(
            "output.store", once, give_up_at=give_up_at, interrupted=lambda: self._better_to_do(reason)
        )

    # ---- last reports

    def _acknowledge_kills(self, usage: Usage) -> None:
        """The payload is gone; so is the lease with this. What follows may still add usage and output."""
        kills = self._lease.kills()
        if not kills:
            return

        def once() -> None:
            with self._lease.reporting:
                self._context.server.heartbeat(self._lease, usage=usage, std_output=None, acknowledged=kills)
                self._lease.handed_back = True

        try:
            self._persistently("kill.acknowledge", once, give_up_at=math.inf)
            log.event("kill.acknowledged", job=self._lease.job.id)
        except LeaseEndedError:
            pass  # its answer was lost

    def _finish(self, conclusion: Conclusion, *, usage: Usage, output: str | None, trouble: str | None) -> str:
        minor = conclusion.minor if not trouble else _both(conclusion, trouble)

        def once() -> str:
            with self._lease.reporting:
                status = self._context.server.finish(
                    self._lease,
                    exit_code=conclusion.exit_code,
                    minor=minor,
                    usage=usage,
                    output=output,
                    fault=conclusion.fault,
                )
                self._lease.handed_back = True
            return status

        try:
            # No order is more important than this: it ends the lease, which is what each of them wants.
            return self._persistently("job.finish", once, give_up_at=math.inf)
        except RefusedError:
            if output is None:
                raise
            return self._finish(conclusion, usage=usage, output=None, trouble=trouble or "the output was refused")

    def _persistently(
        self,
        what: str,
        attempt: Callable[[], Result],
        *,
        give_up_at: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Result:
        def until() -> float:
            return min(give_up_at, self._lease.over_at, self._context.over_at)

        return self._context.retry.call(what, attempt, until=until, interrupted=interrupted)

    def _better_to_do(self, reason: str | None) -> bool:
        """Whether an order came that makes the output worthless; a pilot that is to stop still delivers it."""
        return self._context.order(self._lease) not in {None, STOPPED, reason}
