"""Jobs that the pilot itself hands back: their process died, or a signal came before one was started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.job import payload_records, stale_workspaces
from pilots.agent.pilot.job_processes import EndedTask, JobProcesses
from pilots.agent.pilot.job_task import JobTask, ProcessDeath
from pilots.agent.server.api import MatchedJob, Server
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import LeaseEndedError
from pilots.agent.server.retry import Retry
from wms.wire.protocol import RESCHEDULE_EXIT_CODE, Usage

#: Seconds for the last report of a pilot that is being stopped.
LAST_REPORT_S = 5.0
#: Seconds for handing a job back; after that its lease expires.
_HAND_BACK_S = 15.0
#: Processes of one job that may die; after that the pilot itself ends what is left of the payload.
_MOST_DEATHS = 10


class HandBacks:
    """Hands jobs back, after ending what is left of them."""

    def __init__(
        self,
        server: Server,
        retry: Retry,
        processes: JobProcesses,
        *,
        stop: StopRequest,
        wakeup: WakeupPipe,
        work_dir: Path,
    ) -> None:
        self._server, self._retry, self._processes = server, retry, processes
        self._stop, self._wakeup, self._work_dir = stop, wakeup, work_dir

    def clean_up_if_died(self, ended: EndedTask) -> None:
        """Start a process that ends what is left of a job whose process died, and then hands the job back."""
        if not ended.died:
            return
        task, before = ended.task, ended.task.died_before
        log.event("job.process_died", job=task.matched.job.id, how=ended.how)
        if ended.status is None and before is None:  # nothing was started
            self.hand_back(task.matched, task.configuration, minor=f"The pilot's process for the job {ended.how}")
            return
        times = 1 if before is None else before.times + 1
        how = ended.how if before is None else before.how
        asked_to = bool(self._stop) if before is None else before.asked_to
        orphans = (*(before.orphans if before else ()), *self._processes.orphans())
        died = ProcessDeath(how=how, orphans=orphans, times=times, asked_to=asked_to)
        if times > _MOST_DEATHS:
            self._clean_up_without_process(task, died)
        else:
            self._processes.start(replace(task, died_before=died))

    def _clean_up_without_process(self, task: JobTask, died: ProcessDeath) -> None:
        """Clean up in this process, because no other one starts (the payload has used them up) or survives.

        It takes seconds, so the lease need not be renewed meanwhile.
        """
        job, match_id = task.matched.job.id, task.matched.match_id
        ending = payload_records.Ending(payload_records.remains_of(match_id, orphans=died.orphans))
        if not ending.wait(within_s=2 * payload_records.END_WITHIN_S):
            log.event("job.left_behind", job=job, deaths=died.times)
            return
        payload_records.PayloadRecord(match_id, account="", work_directory=self._work_dir).remove()
        log.event("payload.ended", job=job)
        self.hand_back(task.matched, task.configuration, minor=died.minor, fault=died.fault)
        if not self._stop:
            stale_workspaces.remove(task.directory, accounts=task.configuration.place.payload_users)

    def hand_back(
        self, matched: MatchedJob, configuration: PilotConfiguration, *, minor: str, fault: str | None = None
    ) -> None:
        """Report that the job did not run, so that it is rescheduled; a failure leaves that to the end of its lease."""
        lease = matched.lease(configuration=configuration, wakeup=self._wakeup)
        give_up_at = monotonic() + (LAST_REPORT_S if self._stop else _HAND_BACK_S)
        try:
            status = self._retry.call(
                "job.hand_back",
                lambda: self._server.finish(
                    lease, exit_code=RESCHEDULE_EXIT_CODE, minor=minor, usage=Usage(), output=None, fault=fault
                ),
                until=lambda: give_up_at,
            )
            log.event("job.handed_back", job=matched.job.id, status=status)
        except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("job.not_reported", job=matched.job.id, error=error)
