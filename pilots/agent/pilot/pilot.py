"""The pilot's life: configuration, check of the node, then jobs while time is left (PIL §2.1, DESIGN §3.7)."""

from __future__ import annotations

import math
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.data.storage import Storage
from pilots.agent.job import isolation, payload_records, stale_workspaces
from pilots.agent.job.preparation import RESCHEDULE
from pilots.agent.job.workspace import directory_of
from pilots.agent.node import gpus
from pilots.agent.node.inspection import host_name
from pilots.agent.pilot import drain, free_resources, job_task
from pilots.agent.pilot.credentials import PILOT_TOKEN_PREFIX
from pilots.agent.pilot.drain import DrainRequest
from pilots.agent.pilot.job_processes import EndedTask, JobProcesses
from pilots.agent.pilot.job_task import CONTAINER_FAILED, FAULT, LOOK_AT_NODE, JobTask, ProcessDeath
from pilots.agent.pilot.log_upload import LogUpload
from pilots.agent.pilot.node_monitor import NodeMonitor, NodeSnapshot
from pilots.agent.pilot.offer import MIN_CPU_TIME_S, Resources, offer_of
from pilots.agent.pilot.options import Options
from pilots.agent.pilot.submit_pools import SubmitPools, contradiction, whereabouts_of
from pilots.agent.server.api import MatchedJob, NothingFits, Server, Usage
from pilots.agent.server.configuration import OtherProtocolError, PilotConfiguration
from pilots.agent.server.http import Client, RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from pilots.agent.server.lease import LeaseEndedError
from pilots.agent.server.retry import Backoff, InterruptedCallError, Retry

#: Exit codes of the process; wrong usage is 2 (``__main__``).
DONE, REFUSED, UNREACHABLE = 0, 1, 3
#: Of a single operation of the network.
_TIMEOUT_S = 20.0
#: Last words are worth this long.
_LAST_WORDS_S = 5.0
#: Nor is anything else done for a job whose process died: its lease runs out.
_HAND_BACK_S = 15.0
#: A process that has not ended in time gets so much more; and one that was killed, which a hanging file system keeps.
_KILL_AFTER_S = 0.5
_KILLED_WITHIN_S = 5.0
#: Of the processes of one job; after so many the pilot ends what is left of the payload by itself.
_MOST_DEATHS = 10
#: Between two matches, whatever the server says.
_SHORTEST_WAIT_S = 0.1
#: That the server takes in one request.
_MOST_JOBS = 100
#: Codes of refusals that say no more than what a drain file says.
_DRAINED = "pilot_drained"
_FILE_LEFT = (
    "jobs could read the token file {file}, for this node can give them neither namespaces nor another account: "
    "give --remove-token-file, or the token by a pipe and --token-fd N or --token-file -"
)  # fmt: skip

Result = TypeVar("Result")


class PilotExit(Exception):  # noqa: N818 - no error, but how the loop ends
    """The pilot's life is over, for a reason that the server is told."""

    def __init__(self, reason: str, *, exit_code: int = DONE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class PilotLoop:
    """One pilot, from its start to its end."""

    def __init__(self, options: Options, *, token: str, started_at: float) -> None:
        """Prepare everything without saying a word to the server.

        Args:
            options: of the command line.
            token: of a pilot, or for registration.
            started_at: by the pilot's clock.
        """
        self._options = options
        self._started_at = started_at
        #: Whether the server knows this pilot, so that it wants to hear its last words.
        self._known = token.startswith(PILOT_TOKEN_PREFIX)
        self._wakeup = WakeupPipe()
        self._stop = StopRequest(self._wakeup, at_once=lambda: self._processes.pass_on(signal.SIGTERM))
        self._drain = DrainRequest(options.drain_file, self._wakeup)
        self._retry = Retry(self._wakeup)
        self._server = Server(Client(options.server, timeout_s=_TIMEOUT_S, ca=options.ca), token=token)
        self._log_upload = LogUpload(self._server)
        self._submit_pools = SubmitPools(
            lambda where: self._ask("pilot.submit_pools", lambda: self._server.submit_pools(**where._asdict()))
        )
        storage, parent = Storage(ca=options.ca), os.getpid()
        self._processes = JobProcesses(
            self._wakeup,
            work=lambda task: job_task.run_task(
                task, server=self._server, storage=storage, options=options, parent=parent
            ),
        )
        self._jobs = 0
        self._node_monitor = NodeMonitor(options, started_at=started_at)

    def run(self) -> int:
        """Live; return the exit code of the process."""
        self._processes.listen()
        self._drain.listen()
        self._stop.listen()
        try:
            leaving = self._life()
            self._wind_down()
            return self._leave(leaving)
        finally:
            # Nobody else would look after them.
            self._processes.pass_on(signal.SIGKILL)
            self._server.close()

    def _life(self) -> PilotExit:
        """Work until there is a reason not to; jobs may still run then."""
        try:
            if not self._known:
                self._register()
            self._work()
        except PilotExit as leaving:
            return leaving
        except (RefusedError, OtherProtocolError) as error:
            return _refused(error)
        except InterruptedCallError:
            return PilotExit(self._wish() or "interrupted")
        except (UnreachableError, MalformedAnswerError) as error:
            return PilotExit(str(error), exit_code=UNREACHABLE)
        except Exception as error:  # noqa: BLE001 - the border of the process: the server must hear of it
            log.event("agent.fault", error=repr(error), traceback=traceback.format_exc())
            return PilotExit(f"fault of the agent: {error!r}", exit_code=REFUSED)

    def _register(self) -> None:
        options = self._options
        wanted = {name: getattr(options, name) for name in ("vo", "site", "ce", "queue", "stamp")}
        pilot, token_s = self._ask(
            "pilot.register", lambda: self._server.register({**wanted, "host_name": host_name()})
        )
        if token_s is not None:
            self._node_monitor.note_token(lasts_s=token_s)
        self._known = True
        log.event("pilot.registered", pilot=pilot, site=options.site, ce=options.ce, queue=options.queue)

    # ---- jobs

    def _work(self) -> NoReturn:
        """Keep the slot full; ends only by an exception."""
        snapshot = self._look()
        first_s = max(snapshot.configuration.match_retry_after_s, _SHORTEST_WAIT_S)
        backoff = Backoff(first_s=first_s, limit_s=self._options.max_wait_s)
        self._processes.idle_since = monotonic()
        match_at = -math.inf
        while True:
            while (ended := self._processes.next_ended()) is not None:
                self._after(ended, snapshot)
                backoff.reset()
                match_at = -math.inf
            self._refuse_to_go_on(snapshot.slot)
            if monotonic() > self._node_monitor.look_at:
                snapshot = self._look()
            left = self._left(snapshot)
            useful = (
                snapshot.fit
                and free_resources.is_useful(left, slot=snapshot.slot)
                and not (snapshot.alone and self._processes.running)
            )
            if useful and monotonic() >= match_at:
                match_at = monotonic() + self._match(left, snapshot, backoff)
            else:
                self._rest(until=min(match_at if useful else math.inf, self._node_monitor.look_at))

    def _look(self) -> NodeSnapshot:
        """Fetch the configuration, look at the node and tell what was found."""
        configuration, answer = self._ask("pilot.configuration", self._server.configuration)
        if elsewhere := contradiction(self._options, configuration.place):
            raise PilotExit(elsewhere, exit_code=REFUSED)
        if self._options.token_left and isolation.kind(configuration.place) == isolation.ALONE:
            raise PilotExit(_FILE_LEFT.format(file=self._options.token_left), exit_code=REFUSED)
        busy = bool(self._processes.running)
        if not busy:
            # What they occupy counts as free: the node may be unfit with it.
            users = configuration.place.payload_users
            if payload_records.end_all(stopped=self._wish):
                raise PilotExit("a payload of an earlier pilot on this node cannot be ended", exit_code=REFUSED)
            stale_workspaces.remove_all(self._options.work_dir, accounts=users, stopped=self._wish)
        snapshot = self._node_monitor.look(configuration, answer, busy=busy)
        self._ask("pilot.report", lambda: self._server.report(snapshot.report))
        if not snapshot.fit and not busy:
            raise PilotExit("the node is not fit", exit_code=REFUSED)
        return snapshot

    def _wish(self) -> str | None:
        """Return who wants the pilot to leave; None: nobody does."""
        if self._stop:
            return f"stopped by {self._stop.signal_name}"
        drained = self._drain.reason()
        return drained and f"drained {drained}"

    def _refuse_to_go_on(self, slot: Resources) -> None:
        wish = self._wish()
        if wish:
            raise PilotExit(wish)
        if self._options.max_jobs is not None and self._jobs >= self._options.max_jobs:
            raise PilotExit(f"{self._jobs} jobs done, as many as wanted")
        if slot.cpu_left_s(self._elapsed_s()) < min(MIN_CPU_TIME_S, slot.cpu_time_s):
            raise PilotExit("out of time")

    def _left(self, snapshot: NodeSnapshot) -> Resources:
        jobs = (task.matched.job for task in self._processes.running)
        return free_resources.left_of(snapshot.slot, jobs, free_disk_mb=snapshot.free_disk_mb)

    def _match(self, left: Resources, snapshot: NodeSnapshot, backoff: Backoff) -> float:
        """Ask for jobs that fill what is left; return after how many seconds to ask again."""
        most = 1 if snapshot.alone else min(left.processors, _MOST_JOBS)
        if self._options.max_jobs is not None:
            most = min(most, self._options.max_jobs - self._jobs)
        offer = {**self._offer(left, snapshot.configuration), "max_jobs": most}
        found = self._ask("match", lambda: self._server.match(offer))
        if isinstance(found, NothingFits):
            # "Ask again" is no sign that there is nothing: those waits do not grow.
            waits = backoff if found.is_proven else Backoff(first_s=_SHORTEST_WAIT_S, limit_s=_SHORTEST_WAIT_S)
            wait_s = waits.next_s(at_least_s=found.retry_after_s or None)
            idle_s = monotonic() + wait_s - self._processes.idle_since
            if not self._processes.running and idle_s > self._options.max_idle_s:
                raise PilotExit("no job for me")
            event = "match.nothing" if found.is_proven else "match.busy"
            log.event(event, again_in_s=wait_s, **({"why": found.why} if found.why else {}))
            return wait_s
        for matched in found:
            if self._stop:
                # Asked for before the signal, answered after it.
                self._hand_back(matched, snapshot.configuration, minor="Pilot was stopped")
            else:
                self._start(matched, snapshot)
        backoff.reset()
        # Where there were fewer than could be taken, there is nothing else at the moment.
        return 0.0 if len(found) == most else backoff.next_s()

    def _offer(self, left: Resources, configuration: PilotConfiguration) -> Record:
        offer = offer_of(left, elapsed_s=self._elapsed_s())
        where = whereabouts_of(self._options, configuration.place)
        return offer if where is None else self._submit_pools.added_to(offer, where)

    def _start(self, matched: MatchedJob, snapshot: NodeSnapshot) -> None:
        self._jobs += 1
        log.event("job.leased", job=matched.job.id, match=matched.match_id)
        of_slot = gpus.of_slot(os.environ, devices=Path("/dev"))
        taken = (name for task in self._processes.running for name in task.gpus)
        self._processes.start(
            JobTask(
                matched=matched,
                configuration=snapshot.configuration,
                wall_left_s=snapshot.slot.payload_wall_s(self._elapsed_s(), asked_s=matched.job.wall_time_s),
                speed=snapshot.slot.speed,
                gpus=free_resources.free_gpus(of_slot, taken, wanted=matched.job.gpus),
                directory=directory_of(matched.job.id, self._options.work_dir),
            )
        )

    def _after(self, ended: EndedTask, snapshot: NodeSnapshot) -> None:
        """See to what the end of a job's process means for the next."""
        if ended.died or ended.asks(LOOK_AT_NODE) or not snapshot.fit:
            self._node_monitor.look_soon()
        if image := ended.task.matched.job.container:
            self._node_monitor.note_container(image, started=not ended.asks(CONTAINER_FAILED))
        self._give_up_if_dead(ended)
        if ended.status == FAULT:
            # The next job would fare no better.
            raise PilotExit(f"fault of the agent with job {ended.task.matched.job.id}", exit_code=REFUSED)

    def _give_up_if_dead(self, ended: EndedTask) -> None:
        """Let another process end what is left of a job whose process died, and hand the job back then."""
        if not ended.died:
            return
        task, before = ended.task, ended.task.died_before
        log.event("job.process_died", job=task.matched.job.id, how=ended.how)
        if ended.status is None and before is None:  # nothing was started
            self._hand_back(task.matched, task.configuration, minor=f"The pilot's process for the job {ended.how}")
            return
        times = 1 if before is None else before.times + 1
        how = ended.how if before is None else before.how
        asked_to = bool(self._stop) if before is None else before.asked_to
        strays = (*(before.strays if before else ()), *self._processes.strays())
        died = ProcessDeath(how=how, strays=strays, times=times, asked_to=asked_to)
        if times > _MOST_DEATHS:
            self._give_up_without_process(task, died)
        else:
            self._processes.start(replace(task, died_before=died))

    def _give_up_without_process(self, task: JobTask, died: ProcessDeath) -> None:
        """Do in this process what no other one can: none starts (the payload has used them up), or none survives.

        It takes seconds at most, so that nobody has to renew the lease meanwhile.
        """
        job, match_id = task.matched.job.id, task.matched.match_id
        ending = payload_records.Ending(payload_records.remains_of(match_id, strays=died.strays))
        if not ending.wait(within_s=2 * payload_records.END_WITHIN_S):
            log.event("job.left_behind", job=job, deaths=died.times)
            return
        payload_records.PayloadRecord(match_id, account="", work_directory=self._options.work_dir).remove()
        log.event("payload.ended", job=job)
        self._hand_back(task.matched, task.configuration, minor=died.minor, fault=died.fault)
        if not self._stop:
            stale_workspaces.remove(task.directory, accounts=task.configuration.place.payload_users)

    def _hand_back(
        self, matched: MatchedJob, configuration: PilotConfiguration, *, minor: str, fault: str | None = None
    ) -> None:
        lease = matched.lease(configuration=configuration, wakeup=self._wakeup)
        give_up_at = monotonic() + (_LAST_WORDS_S if self._stop else _HAND_BACK_S)
        try:
            status = self._retry.call(
                "job.hand_back",
                lambda: self._server.finish(
                    lease, exit_code=RESCHEDULE, minor=minor, usage=Usage(), output=None, fault=fault
                ),
                until=lambda: give_up_at,
            )
            log.event("job.handed_back", job=matched.job.id, status=status)
        except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("job.not_reported", job=matched.job.id, error=error)

    # ---- the end

    def _wind_down(self) -> None:
        """Let the jobs that run come to their end, or to that of the time after a signal."""
        while True:
            while (ended := self._processes.next_ended()) is not None:
                self._give_up_if_dead(ended)
            if not self._processes.running:
                return
            if self._stop.asked_at is None:
                if monotonic() >= self._node_monitor.look_at:
                    self._keep_token()
                self._rest(until=self._node_monitor.look_at)
                continue
            # Again, for one that was started just when the signal came.
            self._processes.pass_on(signal.SIGTERM)
            kill_at = self._stop.asked_at + self._options.stop_within_s + _KILL_AFTER_S
            if monotonic() >= kill_at + _KILLED_WITHIN_S:
                log.event("pilot.left_behind", jobs=len(self._processes.running))
                return
            if monotonic() >= kill_at:
                self._processes.pass_on(signal.SIGKILL)
                kill_at += _KILLED_WITHIN_S
            self._rest(until=kill_at)

    def _keep_token(self) -> None:
        """Have the token renewed, for the last words; nothing depends on it."""
        self._node_monitor.look_later()
        snapshot = self._node_monitor.snapshot
        if snapshot is not None:
            self._try("pilot.report", lambda: self._server.report({**snapshot.report, "ok": True}), for_s=0.0)

    def _leave(self, leaving: PilotExit) -> int:
        if leaving.exit_code == UNREACHABLE:
            log.event("pilot.server_unreachable", error=leaving.reason)
            return UNREACHABLE
        log.event("pilot.leaving", reason=leaving.reason, jobs=self._jobs)
        if self._known:
            failed = {"failed": True} if leaving.exit_code == REFUSED else {}
            words = {"leaving": leaving.reason[:255], **failed}
            self._try("pilot.last_words", lambda: self._server.report(words), for_s=_LAST_WORDS_S)
            self._log_upload.ship_rest()
        return leaving.exit_code

    # ---- waiting

    def _ask(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Ask again while the server is not reachable, as long as patience lasts and nobody wants the pilot to leave.

        While jobs run patience does not end: they come to their end by themselves, and the pilot must see to that.
        """
        asked_at = monotonic()

        def until() -> float:
            self._processes.reap()
            since = math.inf if self._processes.running else max(asked_at, self._processes.idle_since)
            return since + self._options.patience_s

        return self._retry.call(what, attempt, until=until, interrupted=self._wish)

    def _try(self, what: str, attempt: Callable[[], None], *, for_s: float) -> None:
        """Ask, and go on without an answer if there is none in time."""
        give_up_at = monotonic() + for_s
        try:
            self._retry.call(what, attempt, until=lambda: give_up_at)
        except (UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("call.given_up", call=what, error=error)

    def _rest(self, *, until: float) -> None:
        """Sleep until then, a signal, the end of a job, or the next look for the drain file."""
        self._log_upload.ship_if_due()
        self._wakeup.wait(min(until - monotonic(), drain.LOOK_EVERY_S))

    def _elapsed_s(self) -> float:
        return monotonic() - self._started_at


def _refused(error: RefusedError | OtherProtocolError) -> PilotExit:
    if isinstance(error, OtherProtocolError):
        return PilotExit(str(error), exit_code=REFUSED)
    if error.code == _DRAINED:
        return PilotExit(f"drained by the server: {error.detail}")
    return PilotExit(f"refused by the server: {error}", exit_code=REFUSED)
