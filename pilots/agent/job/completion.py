"""The end of a job: its output is stored, then its result is reported."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.data import output_spool
from pilots.agent.data.storage import StorageError
from pilots.agent.job import output_files, packing
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.output_store import RepeatedCall, renamed, store_files
from pilots.agent.job.packing import ArchiveLimits, Packed
from pilots.agent.job.stage_out import NoOutputDataError, present_files, store_output_data
from pilots.agent.job.workspace import Workspace
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import GivenUpError, RefusedError, UnreachableError
from pilots.agent.server.job_data import GrantedName, OutputDestination
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import ENDED, EXPIRING, KILLED, STOPPED, Lease, LeaseEndedError
from pilots.agent.server.retry import InterruptedCallError
from wms.wire.protocol import COMPLETING, MAX_NAME, Usage

#: Seconds for reporting the status Completing, which is only informative.
_SHORT_S = 5.0
#: Seconds for storing the output of a killed job, whose owner waits for the acknowledgement.
_OUTPUT_OF_KILLED_S = 20.0
#: Seconds for storing the output of any other job: an outage of the server that costs no running job costs no output.
OUTPUT_S = 1800.0
#: Characters of a refusal in a minor status, where the place of the output must also fit.
_MAX_REFUSAL = 100
#: Characters always left in a minor status for the reason why the job ended.
_MIN_REASON = 30
#: Characters of a minor status for what became of the output.
_ROOM = MAX_NAME - len("; ") - _MIN_REASON
_ONLY_ENDS = "only the ends of standard output and error were stored"
#: Names of archives in the scratch directory.
_PACKED, _DATA, _WHOLE, _REST = "output.tar.gz", "output-data.tar.gz", "whole-output.tar.gz", "rest-of-output.tar.gz"
#: For an output sandbox that goes to a storage element: the limits of storage and disk apply.
_BOUNDLESS = ArchiveLimits(packed_bytes=2**63, unpacked_bytes=2**63, for_server=False)
_OF_SPOOL = ArchiveLimits(
    packed_bytes=output_spool.MOST_BYTES, unpacked_bytes=output_spool.MOST_BYTES, for_server=False
)  # fmt: skip
Result = TypeVar("Result")

_UNANSWERED = (UnreachableError, MalformedAnswerError, InterruptedCallError, GivenUpError)


@dataclass(frozen=True)
class Conclusion:
    """The result of a job, as it is reported.

    Attributes:
        exit_code: of the payload; None: it has none.
        minor: minor status with the reason, for the owner; None: the exit code is enough.
        reason: why the job was stopped from outside (lease.ENDED and so on); None: it was not.
        ran: True if the payload was started, so that there may be output.
        fault: FAULT_OF_JOB, FAULT_OF_SUPERVISOR or None (unknown).
    """

    exit_code: int | None
    minor: str | None = None
    reason: str | None = None
    ran: bool = False
    fault: str | None = None


class StoredOutput(NamedTuple):
    """The output of a job as far as it is stored."""

    #: Of the archive at the server; None: there is none.
    reference: str | None
    #: For the minor status; None: nothing.
    trouble: str | None = None
    #: Whether a part of it can be fetched neither from the server nor from a storage element.
    is_lost: bool = False


def _shortened(cause: str) -> str:
    return textwrap.shorten(cause, _MAX_REFUSAL, placeholder="…")


def _both(conclusion: Conclusion, trouble: str) -> str:
    """Return the minor status of a job whose output could not be stored as asked, the reason shortened if need be."""
    code = conclusion.exit_code
    why = conclusion.minor or ("Execution complete" if code == 0 else f"Exited with code {code}")
    most = max(MAX_NAME - len("; ") - len(trouble), _MIN_REASON)
    return f"{why if len(why) <= most else f'{why[: most - 1]}…'}; {trouble}"


class Delivery:
    """Storing the output and reporting the result of one job."""

    def __init__(
        self, context: JobContext, lease: Lease, *, workspace: Workspace, heartbeat: Heartbeat,
        configuration: PilotConfiguration,
    ) -> None:  # fmt: skip
        self._context = context
        self._lease = lease
        self._workspace = workspace
        #: Names of the output data that are stored so far.
        self._stored: list[GrantedName] = []
        #: Sentence that says where the whole output is, at a storage element; empty: it cannot be stored there.
        self._elsewhere: str | None = None
        self._heartbeat = heartbeat
        self._limits = ArchiveLimits(
            packed_bytes=configuration.sandbox_max_bytes, unpacked_bytes=configuration.sandbox_max_unpacked_bytes
        )

    def deliver(self, conclusion: Conclusion, *, usage: Usage) -> None:
        """Store the output and report the result; without a report the lease expires and the job is queued again.

        Args:
            conclusion: result of the job.
            usage: of the whole payload.
        """
        if conclusion.reason == ENDED:
            return  # the job may already be leased to another pilot
        try:
            if conclusion.ran and conclusion.reason is None:
                self._report_completing(usage)
                conclusion = self._store_data(conclusion)
            output = self._deliver_output(conclusion)
            trouble = "; ".join(filter(None, [self._renamed(), output.trouble])) or None
            self._acknowledge_kills(usage)
            status = self._finish(conclusion, usage=usage, output=output._replace(trouble=trouble))
            log.event("job.finished", job=self._lease.job.id, status=status)
        except LeaseEndedError as error:
            log.event("lease.ended", job=self._lease.job.id, error=error)
        except (*_UNANSWERED, RefusedError) as error:
            log.event("job.not_reported", job=self._lease.job.id, error=error)

    # ---- output

    def _deliver_output(self, conclusion: Conclusion) -> StoredOutput:
        # A job that is handed back starts again from the beginning, so its output is not stored.
        if not conclusion.ran or conclusion.reason in {STOPPED, EXPIRING}:
            return StoredOutput(None)
        patience_s = _OUTPUT_OF_KILLED_S if conclusion.reason == KILLED else OUTPUT_S
        try:
            return self._store_output(conclusion, give_up_at=monotonic() + patience_s)
        except GivenUpError as error:
            log.event("output.not_stored", job=self._lease.job.id, error=error)
            return StoredOutput(None, "the output could not be uploaded", is_lost=True)
        except OSError as error:
            log.event("node.disk_trouble", error=error)
            reference = self._store_tails(conclusion, give_up_at=monotonic() + patience_s)
            stored = "" if reference is None else f"; {_ONLY_ENDS}"
            return StoredOutput(reference, f"the output could not be packed: {error.strerror}{stored}", is_lost=True)

    def _store_tails(self, conclusion: Conclusion, *, give_up_at: float) -> str | None:
        """Store the ends of standard output and error from memory, because the disk is full; None: that failed."""
        job, directory = self._lease.job, self._workspace.job
        descriptor = os.memfd_create("output")
        archive = Path(f"/proc/self/fd/{descriptor}")
        try:
            streams = output_files.chosen(directory, [job.std_output, job.std_error])
            packing.pack_tails(directory, streams, into=archive, limits=self._limits)
            return self._store(archive, give_up_at=give_up_at, reason=conclusion.reason)
        except (*_UNANSWERED, RefusedError, OSError) as error:
            log.event("output.not_stored", job=job.id, error=error)
            return None
        finally:
            os.close(descriptor)

    def _keep(self, name: str, conclusion: Conclusion) -> str:
        """Keep an archive in the spool of the node; return the end of a sentence that says where."""
        if conclusion.reason is not None:
            return ""  # output of a killed or stopped job is not kept
        where = output_spool.keep(
            self._workspace.scratch / name,
            spool=self._context.spool,
            work_directory=self._context.work_directory,
            name=f"job-{self._lease.job.id}-{self._lease.match_id[:8]}-{name}",
        )
        return f"; it is kept at {where}" if where else ""

    def _keep_data(self, conclusion: Conclusion) -> str:
        files = present_files(self._workspace.job, self._lease.data.output_files)
        return self._pack_and_keep(files, _DATA, conclusion) if files else ""

    def _pack_and_keep(self, files: Sequence[tuple[Path, str]], name: str, conclusion: Conclusion) -> str:
        try:
            packed = packing.pack(
                self._workspace.job, files, into=self._workspace.scratch / name, limits=_OF_SPOOL,
                give_up=lambda: self._is_interrupted(conclusion.reason),
            )  # fmt: skip
        except (OSError, GivenUpError) as error:
            log.event("output.not_kept", job=self._lease.job.id, archive=name, error=error)
            return ""
        if not packed.members:
            return ""
        where = self._keep(name, conclusion)
        return where.replace("it is", f"{packed.members} of {len(files)} files are") if packed.left_out else where

    def _store_data(self, conclusion: Conclusion) -> Conclusion:
        """Store the output data of a successful payload; if that fails, the job fails or is handed back."""
        if conclusion.exit_code != 0:
            return conclusion
        give_up_at = monotonic() + OUTPUT_S
        try:
            store_output_data(
                self._context, self._lease, self._workspace.job, stored=self._stored,
                repeated=self._until(give_up_at), give_up=lambda: self._is_interrupted(None),
            )  # fmt: skip
        except (InterruptedCallError, GivenUpError):
            reason = self._context.stop_reason(self._lease)
            return replace(conclusion, exit_code=None, minor="The output data were not all stored", reason=reason)
        except (
            NoOutputDataError,
            StorageError,
            UnreachableError,
            MalformedAnswerError,
            RefusedError,
            OSError,
        ) as error:
            cause = error.detail if isinstance(error, RefusedError) else error
            cause = error.strerror or error if isinstance(error, OSError) else cause
            log.event("output_data.not_stored", job=self._lease.job.id, error=error)
            where = self._keep_data(conclusion)
            cause = _shortened(str(cause)) if where else cause
            return replace(conclusion, exit_code=None, minor=f"Output data could not be stored: {cause}{where}")
        return conclusion

    def _renamed(self) -> str:
        return renamed(self._stored, room=_ROOM)

    def _report_completing(self, usage: Usage) -> None:
        def once() -> None:
            self._context.server.report_status(self._lease, status=COMPLETING)
            # The output of a job shorter than the heartbeat interval could not be peeked at without this heartbeat.
            with self._lease.reporting:
                self._beat(usage, acknowledged=())

        try:
            self._repeated(
                "status.completing", once, give_up_at=monotonic() + _SHORT_S,
                interrupted=lambda: self._is_interrupted(None),
            )  # fmt: skip
        except (*_UNANSWERED, RefusedError) as error:
            log.event("status.not_reported", job=self._lease.job.id, error=error)

    def _store_output(self, conclusion: Conclusion, *, give_up_at: float) -> StoredOutput:
        job, directory, reason = self._lease.job, self._workspace.job, conclusion.reason
        archive, streams = self._workspace.scratch / _PACKED, (job.std_output, job.std_error)
        missing = packing.absent(directory, [*job.output_sandbox, *streams]) if reason is None else []
        files = output_files.chosen(directory, [*job.output_sandbox, *streams])
        packed = packing.pack(
            directory, files, into=archive, limits=self._limits, streams=streams,
            give_up=lambda: self._is_interrupted(reason),
        )  # fmt: skip
        where = self._deliver_rest(files, packed, conclusion, give_up_at=give_up_at)
        named = packing.troubles(missing, packed.left_out, where, room=_ROOM - len("; ") - len(self._renamed()))
        try:
            whole = self._store(archive, give_up_at=give_up_at, reason=reason)
            # What is elsewhere is whole there but for what no archive can have.
            is_lost = len(packed.left_out) > (len(packed.too_large) if self._elsewhere else 0)
            return StoredOutput(whole, named or None, is_lost=is_lost)
        except RefusedError as error:
            log.event("output.refused", job=job.id, error=error)
            reference, trouble = self._store_ends(error, files, conclusion, give_up_at=give_up_at)
        except _UNANSWERED as error:
            log.event("output.not_stored", job=job.id, error=error)
            reference, trouble = None, f"the output could not be uploaded{self._keep(_PACKED, conclusion)}"
        return StoredOutput(reference, f"{trouble}; {named}" if named else trouble, is_lost=not self._elsewhere)

    def _deliver_rest(
        self, files: Sequence[tuple[Path, str]], packed: Packed, conclusion: Conclusion, *, give_up_at: float
    ) -> str:
        """Store or keep what was too large; return the end of a sentence that says where, empty for nothing."""
        if not packed.too_large or conclusion.reason is not None:
            return ""
        log.event("output.reduced", job=self._lease.job.id, too_large=len(packed.too_large))
        if elsewhere := self._stored_at_element(files, give_up_at=give_up_at):
            return f"; {elsewhere}"
        return self._pack_and_keep(packed.too_large, _REST, conclusion) or "; it is lost"

    def _store_ends(
        self, refusal: RefusedError, files: Sequence[tuple[Path, str]], conclusion: Conclusion, *, give_up_at: float
    ) -> tuple[str | None, str]:
        """Store only the ends of standard output and error, after the server refused the archive."""
        job, directory, archive = self._lease.job, self._workspace.job, self._workspace.scratch / _PACKED
        elsewhere = self._stored_at_element(files, give_up_at=give_up_at) if conclusion.reason is None else ""
        kept = f"; {elsewhere}" if elsewhere else self._keep(_PACKED, conclusion)
        streams = output_files.chosen(directory, [job.std_output, job.std_error])
        packing.pack_tails(directory, streams, into=archive, limits=self._limits)
        refused, detail = "the output was refused", _shortened(refusal.detail)
        try:
            reference = self._store(archive, give_up_at=give_up_at, reason=conclusion.reason)
        except (*_UNANSWERED, RefusedError) as error:
            log.event("output.not_stored", job=job.id, error=error)
            return None, f"{refused}: {detail}{kept}"
        return reference, f"{refused} ({detail}); {elsewhere or _ONLY_ENDS + (kept or ', the rest is lost')}"

    def _stored_at_element(self, files: Sequence[tuple[Path, str]], *, give_up_at: float) -> str:
        """Store the whole output, once, at a storage element; return where, empty: there is none, or it failed."""
        if self._elsewhere is None:
            self._elsewhere = self._store_at_element(files, give_up_at=give_up_at)
        return self._elsewhere

    def _store_at_element(self, files: Sequence[tuple[Path, str]], *, give_up_at: float) -> str:
        place, job = self._lease.data.destination, self._lease.job
        packed, stored = self._workspace.scratch / _WHOLE, list[GrantedName]()
        try:
            if place is None or place.storage_element != job.output_se:
                place = self._place_of_server(give_up_at=give_up_at)
            if place is None:
                return ""
            lfn = f"{place.path}/output_sandbox_{job.id}.tar.gz"
            packing.pack(
                self._workspace.job, files, into=packed, limits=_BOUNDLESS,
                give_up=lambda: self._is_interrupted(None),
            )  # fmt: skip
            with packed.open("rb") as file:
                store_files(
                    self._context, self._lease, [(file, lfn)], place, stored=stored,
                    repeated=self._until(give_up_at), give_up=lambda: self._is_interrupted(None),
                )  # fmt: skip
        except (*_UNANSWERED, StorageError, RefusedError, OSError) as error:
            log.event("output.not_stored_at_element", job=job.id, place=place, error=error)
            return ""
        finally:
            packed.unlink(missing_ok=True)
        return f"all of it is stored as LFN:{stored[0].stored_as} at {place.storage_element}"

    def _place_of_server(self, *, give_up_at: float) -> OutputDestination | None:
        def once() -> OutputDestination | None:
            return self._context.server.sandbox_place(self._lease)

        return self._until(give_up_at)("output.place", once)

    def _store(self, packed: Path, *, give_up_at: float, reason: str | None) -> str:
        def once() -> str:
            return self._context.server.store(self._lease, file=packed, give_up=lambda: self._is_interrupted(reason))

        return self._repeated(
            "output.store", once, give_up_at=give_up_at, interrupted=lambda: self._is_interrupted(reason)
        )

    # ---- last reports

    def _acknowledge_kills(self, usage: Usage) -> None:
        """Acknowledge commands to kill, which ends the lease; the final report may still add usage and output."""
        kills = self._lease.kills()
        if not kills:
            return

        def once() -> None:
            with self._lease.reporting:
                # The final report is refused if the job was rescheduled, so that the last lines come with this one.
                self._beat(usage, acknowledged=kills)
                self._lease.handed_back = True

        try:
            self._repeated("kill.acknowledge", once, give_up_at=math.inf)
            log.event("kill.acknowledged", job=self._lease.job.id)
        except LeaseEndedError:
            pass  # an earlier try arrived, but its answer was lost

    def _beat(self, usage: Usage, *, acknowledged: Sequence[int]) -> None:
        tails = self._heartbeat.unreported_tails()
        self._context.server.heartbeat(self._lease, usage=usage, tails=tails, acknowledged=acknowledged)
        self._heartbeat.tails_reported(tails)

    def _finish(self, conclusion: Conclusion, *, usage: Usage, output: StoredOutput) -> str:
        minor = conclusion.minor if not output.trouble else _both(conclusion, output.trouble)

        def once() -> str:
            with self._lease.reporting:
                status = self._context.server.finish(
                    self._lease,
                    exit_code=conclusion.exit_code,
                    minor=minor,
                    usage=usage,
                    output=output.reference,
                    output_lost=output.is_lost,
                    tails=self._heartbeat.unreported_tails(),
                    fault=conclusion.fault,
                )
                self._lease.handed_back = True
            return status

        try:
            # Not interrupted: the final report ends the lease, as every reason to stop demands.
            return self._repeated("job.finish", once, give_up_at=math.inf)
        except RefusedError:
            if output.reference is None:
                raise
            refused = StoredOutput(None, output.trouble or "the output was refused", is_lost=True)
            return self._finish(conclusion, usage=usage, output=refused)

    def _repeated(
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

    def _until(self, give_up_at: float) -> RepeatedCall:
        """Return _repeated with this end, interrupted by reasons to stop."""

        def repeated(what: str, attempt: Callable[[], Result]) -> Result:
            return self._repeated(what, attempt, give_up_at=give_up_at, interrupted=lambda: self._is_interrupted(None))

        return repeated

    def _is_interrupted(self, reason: str | None) -> bool:
        """Return whether the output has become useless; a pilot that is being stopped still stores it."""
        return self._context.stop_reason(self._lease) not in {None, STOPPED, reason}
