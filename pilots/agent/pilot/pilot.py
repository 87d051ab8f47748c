"""The pilot: configuration, check of the node, then jobs while time is left (PIL §2.1)."""

from __future__ import annotations

import math
import os
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.data.storage import Storage
from pilots.agent.job import isolation, payload_records, stale_workspaces
from pilots.agent.job.workspace import directory_of
from pilots.agent.node import gpus
from pilots.agent.node.inspection import host_name
from pilots.agent.pilot import drain, job_task
from pilots.agent.pilot.drain import DrainRequest
from pilots.agent.pilot.hand_back import LAST_REPORT_S, HandBacks
from pilots.agent.pilot.job_processes import EndedTask, JobProcesses
from pilots.agent.pilot.job_task import CONTAINER_FAILED, FAULT, LOOK_AT_NODE, JobTask
from pilots.agent.pilot.log_upload import LogUpload
from pilots.agent.pilot.node_monitor import NodeMonitor, NodeSnapshot
from pilots.agent.pilot.offer import MIN_CPU_TIME_S, Resources, free_gpus, is_useful, left_of, offer_of
from pilots.agent.pilot.options import Options
from pilots.agent.pilot.submit_pools import SubmitPools, configured_place, contradiction
from pilots.agent.server.api import MatchedJob, NothingFits, Server
from pilots.agent.server.configuration import OtherProtocolError, PilotConfiguration
from pilots.agent.server.http import Client, RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from pilots.agent.server.retry import InterruptedCallError, Retry
from wms.wire.backoff import Backoff
from wms.wire.protocol import MAX_JOBS, MAX_NAME, PILOT_DRAINED, PILOT_TOKEN_PREFIX

#: Exit codes of the process; wrong usage is 2 (``__main__``).
DONE, REFUSED, UNREACHABLE = 0, 1, 3
#: Seconds for a single operation of the network.
_TIMEOUT_S = 20.0
#: Seconds from the end of --stop-within-s to SIGKILL for processes of jobs, and from there until the pilot ends
#: without those that a hanging file system keeps alive.
_KILL_AFTER_S = 0.5
_KILLED_WITHIN_S = 5.0
#: Seconds between two log lines on empty answers, at first and at most.
_EMPTY_LOGGED_FIRST_S, _EMPTY_LOGGED_EVERY_S = 10.0, 600.0
#: Shortest wait in seconds between two requests for jobs.
_SHORTEST_WAIT_S = 0.1
_FILE_LEFT = (
    "jobs could read the token file {file}, for this node can give them neither namespaces nor another account: "
    "give --remove-token-file, or the token by a pipe and --token-fd N or --token-file -"
)  # fmt: skip

Result = TypeVar("Result")


class PilotExit(Exception):  # noqa: N818 - not an error; it ends the loop
    """The pilot ends, for a reason that is reported to the server."""

    def __init__(self, reason: str, *, exit_code: int = DONE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class PilotLoop:
    """One pilot, from its start to its end."""

    def __init__(self, options: Options, *, token: str, started_at: float) -> None:
        """Prepare everything; the server is not called yet.

        Args:
            options: of the command line.
            token: of a pilot, or for registration.
            started_at: monotonic time of the pilot's start.
        """
        self._options = options
        self._started_at = started_at
        #: True if the pilot is registered, so that it reports its end.
        self._is_registered = token.startswith(PILOT_TOKEN_PREFIX)
        self._wakeup = WakeupPipe()
        self._stop = StopRequest(self._wakeup, at_once=lambda: self._processes.pass_on(signal.SIGTERM))
        self._drain = DrainRequest(options.drain_file, self._wakeup)
        self._retry = Retry(self._wakeup)
        self._server = Server(Client(options.server, timeout_s=_TIMEOUT_S, ca=options.ca), token=token)
        self._log_upload = LogUpload(self._server)
        self._submit_pools = SubmitPools(
            lambda place: self._call("pilot.submit_pools", lambda: self._server.submit_pools(**place._asdict()))
        )
        storage, parent = Storage(ca=options.ca), os.getpid()
        self._processes = JobProcesses(
            self._wakeup,
            work=lambda task: job_task.run_task(
                task, server=self._server, storage=storage, options=options, parent=parent
            ),
        )
        self._hand_backs = HandBacks(
            self._server, self._retry, self._processes, stop=self._stop, wakeup=self._wakeup, work_dir=options.work_dir
        )
        self._jobs = 0
        #: Seconds between two log lines on empty answers, and when the next one is due.
        self._empty_logs = Backoff(first_s=_EMPTY_LOGGED_FIRST_S, limit_s=_EMPTY_LOGGED_EVERY_S)
        self._log_empty_at = -math.inf
        self._node_monitor = NodeMonitor(options, started_at=started_at)

    def run(self) -> int:
        """Run the pilot to its end; return the exit code of the process."""
        self._processes.listen()
        self._drain.listen()
        self._stop.listen()
        try:
            end = self._run_jobs()
            self._wind_down()
            return self._leave(end)
        finally:
            # Without the pilot nobody would end them.
            self._processes.pass_on(signal.SIGKILL)
            self._server.close()

    def _run_jobs(self) -> PilotExit:
        """Run jobs until there is a reason to end; jobs may still be running then."""
        try:
            if not self._is_registered:
                self._register()
            self._work()
        except PilotExit as end:
            return end
        except (RefusedError, OtherProtocolError) as error:
            return _refused(error)
        except InterruptedCallError:
            return PilotExit(self._reason_to_leave() or "interrupted")
        except (UnreachableError, MalformedAnswerError) as error:
            return PilotExit(str(error), exit_code=UNREACHABLE)
        except Exception as error:  # noqa: BLE001 - the outermost handler: the fault is reported
            log.event("agent.fault", error=repr(error), traceback=traceback.format_exc())
            return PilotExit(f"fault of the agent: {error!r}", exit_code=REFUSED)

    def _register(self) -> None:
        options = self._options
        place = {name: getattr(options, name) for name in ("vo", "site", "ce", "queue", "stamp")}
        # Older servers do not know it.
        setup = {"setup": options.setup} if options.setup else {}
        pilot, token_s = self._call(
            "pilot.register", lambda: self._server.register({**place, **setup, "host_name": host_name()})
        )
        if token_s is not None:
            self._node_monitor.note_token(lasts_s=token_s)
        self._is_registered = True
        log.event("pilot.registered", pilot=pilot, site=options.site, ce=options.ce, queue=options.queue)

    # ---- jobs

    def _work(self) -> NoReturn:
        """Keep the slot full; end only by an exception."""
        snapshot = self._look()
        first_s = max(snapshot.configuration.match_retry_after_s, _SHORTEST_WAIT_S)
        backoff = Backoff(first_s=first_s, limit_s=self._options.max_wait_s)
        self._processes.idle_since = monotonic()
        match_at = -math.inf
        while True:
            while (ended := self._processes.next_ended()) is not None:
                self._handle_end(ended, snapshot)
                backoff.reset()
                match_at = -math.inf
            self._leave_if_over(snapshot.slot)
            if monotonic() > self._node_monitor.look_at:
                snapshot = self._look()
            left = self._free_resources(snapshot)
            useful = (
                snapshot.fit
                and is_useful(left, slot=snapshot.slot)
                and not (snapshot.alone and self._processes.running)
            )
            if useful and monotonic() >= match_at:
                match_at = monotonic() + self._match(left, snapshot, backoff)
            else:
                self._sleep(until=min(match_at if useful else math.inf, self._node_monitor.look_at))

    def _look(self) -> NodeSnapshot:
        """Fetch the configuration, inspect the node and report it."""
        configuration, answer = self._call("pilot.configuration", self._server.configuration)
        if sentence := contradiction(self._options, configuration.place):
            raise PilotExit(sentence, exit_code=REFUSED)
        if self._options.token_left and isolation.kind(configuration.place) == isolation.ALONE:
            raise PilotExit(_FILE_LEFT.format(file=self._options.token_left), exit_code=REFUSED)
        busy = bool(self._processes.running)
        if not busy:
            # Before the inspection: remains of earlier pilots could make the node unfit.
            users = configuration.place.payload_users
            if payload_records.end_all(stopped=self._reason_to_leave):
                raise PilotExit("a payload of an earlier pilot on this node cannot be ended", exit_code=REFUSED)
            stale_workspaces.remove_all(self._options.work_dir, accounts=users, stopped=self._reason_to_leave)
        snapshot = self._node_monitor.look(configuration, answer, busy=busy)
        self._call("pilot.report", lambda: self._server.report(snapshot.report))
        if not snapshot.fit and not busy:
            raise PilotExit("the node is not fit", exit_code=REFUSED)
        return snapshot

    def _reason_to_leave(self) -> str | None:
        """Return why the pilot is to end: a signal or a drain request; None: neither."""
        if self._stop:
            return f"stopped by {self._stop.signal_name}"
        drained = self._drain.reason()
        return drained and f"drained {drained}"

    def _leave_if_over(self, slot: Resources) -> None:
        reason = self._reason_to_leave()
        if reason:
            raise PilotExit(reason)
        if self._options.max_jobs is not None and self._jobs >= self._options.max_jobs:
            raise PilotExit(f"{self._jobs} jobs done, as many as wanted")
        if slot.cpu_left_s(self._elapsed_s()) < min(MIN_CPU_TIME_S, slot.cpu_time_s):
            raise PilotExit("out of time")

    def _free_resources(self, snapshot: NodeSnapshot) -> Resources:
        jobs = (task.matched.job for task in self._processes.running)
        return left_of(snapshot.slot, jobs, free_disk_mb=snapshot.free_disk_mb)

    def _match(self, left: Resources, snapshot: NodeSnapshot, backoff: Backoff) -> float:
        """Request jobs that fill the free resources; return the seconds until the next request."""
        most = 1 if snapshot.alone else min(left.processors, MAX_JOBS)
        if self._options.max_jobs is not None:
            most = min(most, self._options.max_jobs - self._jobs)
        offer = {**self._offer(left, snapshot.configuration), "max_jobs": most}
        matched_jobs = self._call("match", lambda: self._server.match(offer))
        if isinstance(matched_jobs, NothingFits):
            empty = matched_jobs
            # The server knows how many pilots ask: the waits that it names do not grow. Nor do those for a busy server,
            # which has not said that no job fits.
            grows = empty.is_proven and not empty.retry_after_s
            waits = backoff if grows else Backoff(first_s=_SHORTEST_WAIT_S, limit_s=_SHORTEST_WAIT_S)
            wait_s = waits.next_s(at_least_s=empty.retry_after_s or None)
            idle_s = monotonic() + wait_s - self._processes.idle_since
            if not self._processes.running and idle_s > self._options.max_idle_s:
                raise PilotExit("no job for me")
            self._log_empty(empty, wait_s=wait_s)
            return wait_s
        self._empty_logs.reset()
        self._log_empty_at = -math.inf
        for matched in matched_jobs:
            if self._stop:
                # The signal came between request and answer.
                self._hand_backs.hand_back(matched, snapshot.configuration, minor="Pilot was stopped")
            else:
                self._start(matched, snapshot)
        backoff.reset()
        # Fewer jobs than requested: no other job fits at the moment.
        return 0.0 if len(matched_jobs) == most else backoff.next_s()

    def _log_empty(self, empty: NothingFits, *, wait_s: float) -> None:
        """Log an answer without a job, less and less often: a pilot that waits for days writes few lines."""
        if not empty.is_proven:
            log.event("match.busy", again_in_s=wait_s)
        elif monotonic() >= self._log_empty_at:
            log.event("match.nothing", again_in_s=wait_s, **({"why": empty.why} if empty.why else {}))
            self._log_empty_at = monotonic() + self._empty_logs.next_s()

    def _offer(self, left: Resources, configuration: PilotConfiguration) -> Record:
        offer = offer_of(left, elapsed_s=self._elapsed_s(), setup=self._options.setup)
        place = configured_place(self._options, configuration.place)
        return offer if place is None else self._submit_pools.add_to(offer, place)

    def _start(self, matched: MatchedJob, snapshot: NodeSnapshot) -> None:
        self._jobs += 1
        log.event("job.leased", job=matched.job.id, match=matched.match_id)
        of_slot = gpus.of_slot(os.environ).names
        taken = (name for task in self._processes.running for name in task.gpus)
        self._processes.start(
            JobTask(
                matched=matched,
                configuration=snapshot.configuration,
                wall_left_s=snapshot.slot.payload_wall_s(self._elapsed_s(), asked_s=matched.job.wall_time_s),
                speed=snapshot.slot.speed,
                memory_share_mb=snapshot.slot.memory_share_mb(matched.job.processors),
                gpus=free_gpus(of_slot, taken, count=matched.job.gpus),
                directory=directory_of(matched.job.id, self._options.work_dir),
            )
        )

    def _handle_end(self, ended: EndedTask, snapshot: NodeSnapshot) -> None:
        """Note the consequences of an ended process for the next jobs, and clean up after one that died."""
        if ended.died or ended.has_flag(LOOK_AT_NODE) or not snapshot.fit:
            self._node_monitor.look_soon()
        if image := ended.task.matched.job.container:
            self._node_monitor.note_container(image, started=not ended.has_flag(CONTAINER_FAILED))
        self._hand_backs.clean_up_if_died(ended)
        if ended.status == FAULT:
            # The next job would fail in the same way.
            raise PilotExit(f"fault of the agent with job {ended.task.matched.job.id}", exit_code=REFUSED)

    # ---- the end

    def _wind_down(self) -> None:
        """Wait for the end of the running jobs; after a signal, for --stop-within-s at most."""
        while True:
            while (ended := self._processes.next_ended()) is not None:
                self._hand_backs.clean_up_if_died(ended)
            if not self._processes.running:
                return
            if self._stop.asked_at is None:
                if monotonic() >= self._node_monitor.look_at:
                    self._keep_token()
                self._sleep(until=self._node_monitor.look_at)
                continue
            # Again, for a process that was started when the signal came.
            self._processes.pass_on(signal.SIGTERM)
            kill_at = self._stop.asked_at + self._options.stop_within_s + _KILL_AFTER_S
            if monotonic() >= kill_at + _KILLED_WITHIN_S:
                log.event("pilot.left_behind", jobs=len(self._processes.running))
                return
            if monotonic() >= kill_at:
                self._processes.pass_on(signal.SIGKILL)
                kill_at += _KILLED_WITHIN_S
            self._sleep(until=kill_at)

    def _keep_token(self) -> None:
        """Renew the token for the last report, with a report of the node; a failure is ignored."""
        self._node_monitor.look_later()
        snapshot = self._node_monitor.snapshot
        if snapshot is not None:
            self._try("pilot.report", lambda: self._server.report({**snapshot.report, "ok": True}), for_s=0.0)

    def _leave(self, end: PilotExit) -> int:
        if end.exit_code == UNREACHABLE:
            log.event("pilot.server_unreachable", error=end.reason)
            return UNREACHABLE
        log.event("pilot.leaving", reason=end.reason, jobs=self._jobs)
        if self._is_registered:
            failed = {"failed": True} if end.exit_code == REFUSED else {}
            report = {"leaving": end.reason[:MAX_NAME], **failed}
            self._try("pilot.last_words", lambda: self._server.report(report), for_s=LAST_REPORT_S)
            self._log_upload.send_rest()
        return end.exit_code

    # ---- waiting

    def _call(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Repeat a call while the server is not reachable, for --patience-s and until the pilot is to end.

        While jobs run it is repeated without limit, because the pilot must wait for their end anyway.
        """
        called_at = monotonic()

        def until() -> float:
            self._processes.reap()
            since = math.inf if self._processes.running else max(called_at, self._processes.idle_since)
            return since + self._options.patience_s

        return self._retry.call(what, attempt, until=until, interrupted=self._reason_to_leave)

    def _try(self, what: str, attempt: Callable[[], None], *, for_s: float) -> None:
        """Repeat a call for *for_s* seconds, and go on without an answer if there is none."""
        give_up_at = monotonic() + for_s
        try:
            self._retry.call(what, attempt, until=lambda: give_up_at)
        except (UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("call.given_up", call=what, error=error)

    def _sleep(self, *, until: float) -> None:
        """Sleep until the time, a signal, the end of a job, or the next check for the drain file."""
        self._log_upload.send_if_due()
        self._wakeup.wait(min(until - monotonic(), drain.LOOK_EVERY_S))

    def _elapsed_s(self) -> float:
        return monotonic() - self._started_at


def _refused(error: RefusedError | OtherProtocolError) -> PilotExit:
    if isinstance(error, OtherProtocolError):
        return PilotExit(str(error), exit_code=REFUSED)
    if error.code == PILOT_DRAINED:  # it ends as with a drain file
        return PilotExit(f"drained by the server: {error.detail}")
    return PilotExit(f"refused by the server: {error}", exit_code=REFUSED)
