"""The job wrapper: one job from its lease to its final report (PIL §2.1)."""

from __future__ import annotations

import errno
import signal
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.job import containers, executables, preparation
from pilots.agent.job.completion import Conclusion, Delivery
from pilots.agent.job.execution import Execution, PayloadOutcome
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.identity import Identity, identity_of
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.payload import SIGNAL_BASE, End, name_of_signal
from pilots.agent.job.preparation import (
    CannotRunError,
    DamagedTransferError,
    NodeFlawError,
    NodeTroubleError,
    Program,
    is_of_node,
)
from pilots.agent.job.stage_in import stage_in
from pilots.agent.job.stale_workspaces import WorkspaceLock
from pilots.agent.job.workspace import Workspace
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import GivenUpError, RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import ENDED, EXPIRING, KILLED, STOPPED, Lease, LeaseEndedError, SandboxReference
from pilots.agent.server.retry import InterruptedCallError
from wms.wire.protocol import (
    FAULT_OF_JOB,
    NOT_EXECUTABLE_EXIT_CODE,
    NOT_FOUND_EXIT_CODE,
    RESCHEDULE_EXIT_CODE,
    RUNNING,
)

#: Transfers of an input sandbox that arrives damaged; then the node counts as the cause.
_TRANSFERS = 3
#: Seconds for reporting what the node lacks, before the job is handed back.
_REPORT_S = 20.0
_UNANSWERED = (UnreachableError, MalformedAnswerError, InterruptedCallError, GivenUpError)


class Wrapper:
    """The execution of one job."""

    def __init__(
        self,
        context: JobContext,
        lease: Lease,
        *,
        configuration: PilotConfiguration,
        wall_left_s: float,
        speed: float,
        memory_share_mb: float,
    ) -> None:
        """Prepare the parts.

        Args:
            context: shared parts of the process of the job.
            lease: of the job.
            configuration: of the pilot.
            wall_left_s: seconds until the slot ends.
            speed: of the node's cores, relative to the reference core.
            memory_share_mb: the slot's memory for the processors of the job; 0: unknown.
        """
        self._context = context
        self._lease = lease
        self._configuration = configuration
        self._execution = Execution(
            context, lease, configuration=configuration, wall_left_s=wall_left_s, speed=speed,
            memory_share_mb=memory_share_mb,
        )  # fmt: skip
        #: True if the node could not start the job's container, and may fail with the next one.
        self.container_failed = False
        #: True if the node lacks something that the job needs, so that it need not be inspected again.
        self._lacks_software = False
        self._heartbeat = Heartbeat(
            context.server, lease, every_s=configuration.heartbeat_s, usage=self._execution.usage
        )

    def run(self) -> bool:
        """Run the job; the result goes to the log and, as far as possible, to the server.

        Returns:
            Whether the node is in order; if not, it is to be inspected again before the next job.
        """
        job, directory = self._lease.job, self._context.job_directory
        with self._heartbeat, WorkspaceLock(directory), Workspace(directory) as workspace:
            conclusion = self._conclude(workspace, directory)
            log.event(
                "job.concluded", job=job.id, exit_code=conclusion.exit_code, minor=conclusion.minor,
                reason=conclusion.reason,
            )  # fmt: skip
            delivery = Delivery(
                self._context, self._lease, workspace=workspace, heartbeat=self._heartbeat,
                configuration=self._configuration,
            )  # fmt: skip
            delivery.deliver(conclusion, usage=self._execution.usage())
        in_order = conclusion.ran or conclusion.reason is not None or conclusion.exit_code != RESCHEDULE_EXIT_CODE
        return in_order or (self._lacks_software and not self.container_failed)

    def _conclude(self, workspace: Workspace, directory: Path) -> Conclusion:
        """Set up and run the payload; return the result to report."""
        try:
            identity = identity_of(self._configuration.place, self._lease.job, directory)
            workspace.before_removal(lambda: identity.close(workspace))
            workspace.make(shared=identity.is_other)
            return self._run(workspace, identity)
        except OSError as error:
            log.event("node.trouble", error=error)
            return Conclusion(
                RESCHEDULE_EXIT_CODE, f"The node has no room or no means to run the job: {error.strerror}"
            )
        except CannotRunError as error:
            self.container_failed = isinstance(error, containers.NotBegunError)
            self._lacks_software = isinstance(error, NodeFlawError)
            if isinstance(error, NodeFlawError):
                self._report_flaw(error)
            return Conclusion(error.exit_code, error.minor, fault=None if error.of_node else FAULT_OF_JOB)
        except LeaseEndedError as error:
            self._lease.end(str(error))
            return Conclusion(None, reason=ENDED)
        except _UNANSWERED as error:
            # These calls end early only for a reason to stop or at the end of the lease.
            log.event("job.not_started", job=self._lease.job.id, error=error)
            return _stopped(self._context.stop_reason(self._lease) or EXPIRING, End(), ran=False)

    def _report_flaw(self, error: NodeFlawError) -> None:
        """Report a problem of the node to the operators."""
        give_up_at = monotonic() + _REPORT_S

        def once() -> None:
            self._context.server.report({"flaw": {"name": error.what, "detail": error.minor}})

        try:
            self._context.retry.call(
                "node.flaw", once, until=lambda: give_up_at,
                interrupted=lambda: self._context.stop_reason(self._lease) is not None,
            )  # fmt: skip
        except (*_UNANSWERED, RefusedError) as refused:
            log.event("node.flaw_not_reported", flaw=error.minor, error=refused)

    def _run(self, workspace: Workspace, identity: Identity) -> Conclusion:
        for reference in self._lease.job.input_sandboxes:
            self._fetch(reference, workspace)
        limit = self._configuration.sandbox_max_unpacked_bytes
        stage_in(self._context, self._lease, workspace, max_unpacked_bytes=limit)
        environment = preparation.environment_of(
            self._lease, workspace, self._configuration, uid=identity.uid, identity=identity.variables
        )
        preparation.check_software(self._lease, environment, workspace)
        kind = containers if self._lease.job.container else preparation
        program = kind.program_of(self._lease, environment, workspace)
        # The answer confirms that the lease is open: this process may have been suspended for a long time.
        self._report_running()
        outcome = self._execution.run(program, identity=identity, workspace=workspace, heartbeat=self._heartbeat)
        undisturbed = outcome.reason is None and outcome.verdict is None
        if self._lease.job.container and undisturbed and outcome.end.exit_code != 0:
            containers.check_begun(self._lease, workspace)
        return conclusion_of(outcome, program)

    def _fetch(self, reference: SandboxReference, workspace: Workspace) -> None:
        def once() -> None:
            preparation.fetch_input(
                self._context.server,
                self._lease,
                reference,
                workspace=workspace,
                configuration=self._configuration,
                give_up=lambda: self._context.stop_reason(self._lease) is not None,
            )

        for transfer in range(1, _TRANSFERS + 1):
            try:
                return self._context.repeat("sandbox.fetch", self._lease, once)
            except DamagedTransferError as error:
                log.event("sandbox.damaged", job=self._lease.job.id, error=error, transfer=transfer)
        raise NodeTroubleError(f"Input sandbox {reference.file_name} arrives damaged")

    def _report_running(self) -> None:
        def once() -> None:
            self._context.server.report_status(self._lease, status=RUNNING)

        try:
            self._context.repeat("status.running", self._lease, once)
        except RefusedError as error:
            log.event("status.refused", job=self._lease.job.id, error=error)
        reason = self._context.stop_reason(self._lease)
        if reason is not None:
            raise InterruptedCallError(reason)


def conclusion_of(outcome: PayloadOutcome, program: Program) -> Conclusion:
    """Return the result to report: from a reason to stop, else from the watchdog, else from the end of *program*."""
    end = outcome.end
    if outcome.reason is not None:
        return _stopped(outcome.reason, end, ran=True)
    if outcome.verdict is not None:
        code = RESCHEDULE_EXIT_CODE if outcome.verdict.elsewhere else None
        return Conclusion(code, outcome.verdict.sentence, ran=True)
    if end.error_number is not None:
        code = NOT_FOUND_EXIT_CODE if end.error_number == errno.ENOENT else NOT_EXECUTABLE_EXIT_CODE
        minor = executables.why_not_executed(
            end.error_number, program.executable, name=program.arguments[0], directory=program.directory
        )
        return Conclusion(code, minor, ran=True, fault=None if is_of_node(end.error_number) else FAULT_OF_JOB)
    return Conclusion(end.exit_code, _how_it_ended(end, outcome.out_of_memory), ran=True)


def _how_it_ended(end: End, out_of_memory: str) -> str | None:
    """Return the minor status of a payload that ended by itself; None: the exit code is enough."""
    if end.exit_code is None:
        return "The pilot lost track of the payload: it killed the process above it"
    if out_of_memory and end.exit_code == SIGNAL_BASE + signal.SIGKILL:  # its own or, as its shell says, a child's
        return f"Killed because {out_of_memory}"
    if end.signal_number is not None:
        return f"Killed by signal {end.signal_number} ({name_of_signal(end.signal_number)})"
    if out_of_memory and end.exit_code != 0:
        return f"Exited with code {end.exit_code} after a process of the slot was killed because {out_of_memory}"
    return None


def _stopped(reason: str, end: End, *, ran: bool) -> Conclusion:
    if reason == KILLED:
        return Conclusion(end.exit_code, "Killed by order", reason=reason, ran=ran)
    minor = {STOPPED: "Pilot was stopped", EXPIRING: "The pilot could not renew its lease"}.get(reason)
    return Conclusion(RESCHEDULE_EXIT_CODE, minor, reason=reason, ran=ran)
