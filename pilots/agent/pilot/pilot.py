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
from pilots.agent.base.wakeup import Bell, StopRequest
from pilots.agent.data.storage import Storage
from pilots.agent.job import isolation, payload_records, stale_workspaces
from pilots.agent.job.preparation import RESCHEDULE
from pilots.agent.job.workspace import directory_of
from pilots.agent.node import gpus
from pilots.agent.node.inspection import host_name
from pilots.agent.pilot import drain, free_resources, job_task
from pilots.agent.pilot.credentials import PILOT_TOKEN_PREFIX
from pilots.agent.pilot.drain import DrainRequest
from pilots.agent.pilot.job_processes import Crew, Ended
from pilots.agent.pilot.job_task import CONTAINER_FAILED, FAULT, LOOK_AT_NODE, Died, Errand
from pilots.agent.pilot.leaving import REFUSED, UNREACHABLE, Leaving
from pilots.agent.pilot.log_upload import Shipping
from pilots.agent.pilot.node_monitor import Lookout, Sight
from pilots.agent.pilot.offer import MIN_CPU_TIME_S, Resources, offer_of
from pilots.agent.pilot.options import Options
from pilots.agent.pilot.submit_pools import Pools, contradiction, whereabouts_of
from pilots.agent.server.api import Grant, NothingFits, Server, Usage
from pilots.agent.server.backoff import Backoff
from pilots.agent.server.configuration import Configuration, OtherProtocolError
from pilots.agent.server.http import Client, RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from pilots.agent.server.lease import LeaseEndedError
from pilots.agent.server.persistence import InterruptedCallError, Persistence

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


class Pilot:
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
        self._bell = Bell()
        self._stop = StopRequest(self._bell, at_once=lambda: self._crew.pass_on(signal.SIGTERM))
        self._drain = DrainRequest(options.drain_file, self._bell)
        self._persistence = Persistence(self._bell)
        self._server = Server(Client(options.server, timeout_s=_TIMEOUT_S, ca=options.ca), token=token)
        self._shipping = Shipping(self._server)
        self._pools = Pools(
            lambda where: self._ask("pilot.submit_pools", lambda: self._server.submit_pools(**where._asdict()))
        )
        storage, parent = Storage(ca=options.ca), os.getpid()
        self._crew = Crew(
            self._bell,
            work=lambda errand: job_task.carry_out(
                errand, server=self._server, storage=storage, options=options, parent=parent
            ),
        )
        self._jobs = 0
        self._lookout = Lookout(options, started_at=started_at)

    def run(self) -> int:
        """Live; return the exit code of the process."""
        self._crew.listen()
        self._drain.listen()
        self._stop.listen()
        try:
            leaving = self._life()
            self._wind_down()
            return self._leave(leaving)
        finally:
            # Nobody else would look after them.
            self._crew.pass_on(signal.SIGKILL)
            self._server.close()

    def _life(self) -> Leaving:
        """Work until there is a reason not to; jobs may still run then."""
        try:
            if not self._known:
                self._register()
            self._work()
        except Leaving as leaving:
            return leaving
        except (RefusedError, OtherProtocolError) as error:
            return _refused(error)
        except InterruptedCallError:
            return Leaving(self._wish() or "interrupted")
        except (UnreachableError, MalformedAnswerError) as error:
            return Leaving(str(error), exit_code=UNREACHABLE)
        except Exception as error:  # noqa: BLE001 - the border of the process: the server must hear of it
            log.event("agent.fault", error=repr(error), traceback=traceback.format_exc())
            return Leaving(f"fault of the agent: {error!r}", exit_code=REFUSED)

    def _register(self) -> None:
        options = self._options
        wanted = {name: getattr(options, name) for name in ("vo", "site", "ce", "queue", "stamp")}
        pilot, token_s = self._ask(
            "pilot.register", lambda: self._server.register({**wanted, "host_name": host_name()})
        )
        if token_s is not None:
            self._lookout.note_token(lasts_s=token_s)
        self._known = True
        log.event("pilot.registered", pilot=pilot, site=options.site, ce=options.ce, queue=options.queue)

    # ---- jobs

    def _work(self) -> NoReturn:
        """Keep the slot full; ends only by an exception."""
        sight = self._look()
        first_s = max(sight.configuration.match_retry_after_s, _SHORTEST_WAIT_S)
        backoff = Backoff(first_s=first_s, limit_s=self._options.max_wait_s)
        self._crew.idle_since = monotonic()
        match_at = -math.inf
        while True:
            while (ended := self._crew.next_ended()) is not None:
                self._after(ended, sight)
                backoff.reset()
                match_at = -math.inf
            self._refuse_to_go_on(sight.slot)
            if monotonic() > self._lookout.look_at:
                sight = self._look()
            left = self._left(sight)
            useful = (
                sight.fit
                and free_resources.is_useful(left, slot=sight.slot)
                and not (sight.alone and self._crew.running)
            )
            if useful and monotonic() >= match_at:
                match_at = monotonic() + self._match(left, sight, backoff)
            else:
                self._rest(until=min(match_at if useful else math.inf, self._lookout.look_at))

    def _look(self) -> Sight:
        """Fetch the configuration, look at the node and tell what was found."""
        configuration, answer = self._ask("pilot.configuration", self._server.configuration)
        if elsewhere := contradiction(self._options, configuration.place):
            raise Leaving(elsewhere, exit_code=REFUSED)
        if self._options.token_left and isolation.kind(configuration.place) == isolation.ALONE:
            raise Leaving(_FILE_LEFT.format(file=self._options.token_left), exit_code=REFUSED)
        busy = bool(self._crew.running)
        if not busy:
            # What they occupy counts as free: the node may be unfit with it.
            users = configuration.place.payload_users
            if payload_records.end_all(stopped=self._wish):
                raise Leaving("a payload of an earlier pilot on this node cannot be ended", exit_code=REFUSED)
            stale_workspaces.remove_all(self._options.work_dir, accounts=users, stopped=self._wish)
        sight = self._lookout.look(configuration, answer, busy=busy)
        self._ask("pilot.report", lambda: self._server.report(sight.report))
        if not sight.fit and not busy:
            raise Leaving("the node is not fit", exit_code=REFUSED)
        return sight

    def _wish(self) -> str | None:
        """Return who wants the pilot to leave; None: nobody does."""
        if self._stop:
            return f"stopped by {self._stop.signal_name}"
        drained = self._drain.reason()
        return drained and f"drained {drained}"

    def _refuse_to_go_on(self, slot: Resources) -> None:
        wish = self._wish()
        if wish:
            raise Leaving(wish)
        if self._options.max_jobs is not None and self._jobs >= self._options.max_jobs:
            raise Leaving(f"{self._jobs} jobs done, as many as wanted")
        if slot.cpu_left_s(self._elapsed_s()) < min(MIN_CPU_TIME_S, slot.cpu_time_s):
            raise Leaving("out of time")

    def _left(self, sight: Sight) -> Resources:
        jobs = (errand.grant.job for errand in self._crew.running)
        return free_resources.left_of(sight.slot, jobs, free_disk_mb=sight.free_disk_mb)

    def _match(self, left: Resources, sight: Sight, backoff: Backoff) -> float:
        """Ask for jobs that fill what is left; return after how many seconds to ask again."""
        most = 1 if sight.alone else min(left.processors, _MOST_JOBS)
        if self._options.max_jobs is not None:
            most = min(most, self._options.max_jobs - self._jobs)
        offer = {**self._offer(left, sight.configuration), "max_jobs": most}
        found = self._ask("match", lambda: self._server.match(offer))
        if isinstance(found, NothingFits):
            # "Ask again" is no sign that there is nothing: those waits do not grow.
            waits = backoff if found.is_proven else Backoff(first_s=_SHORTEST_WAIT_S, limit_s=_SHORTEST_WAIT_S)
            wait_s = waits.next_s(at_least_s=found.retry_after_s or None)
            if not self._crew.running and monotonic() + wait_s - self._crew.idle_since > self._options.max_idle_s:
                raise Leaving("no job for me")
            event = "match.nothing" if found.is_proven else "match.busy"
            log.event(event, again_in_s=wait_s, **({"why": found.why} if found.why else {}))
            return wait_s
        for grant in found:
            if self._stop:
                # Asked for before the signal, answered after it.
                self._hand_back(grant, sight.configuration, minor="Pilot was stopped")
            else:
                self._start(grant, sight)
        backoff.reset()
        # Where there were fewer than could be taken, there is nothing else at the moment.
        return 0.0 if len(found) == most else backoff.next_s()

    def _offer(self, left: Resources, configuration: Configuration) -> Record:
        offer = offer_of(left, elapsed_s=self._elapsed_s())
        where = whereabouts_of(self._options, configuration.place)
        return offer if where is None else self._pools.added_to(offer, where)

    def _start(self, grant: Grant, sight: Sight) -> None:
        self._jobs += 1
        log.event("job.leased", job=grant.job.id, match=grant.match_id)
        of_slot = gpus.of_slot(os.environ, devices=Path("/dev"))
        taken = (name for errand in self._crew.running for name in errand.gpus)
        self._crew.start(
            Errand(
                grant=grant,
                configuration=sight.configuration,
                wall_left_s=sight.slot.payload_wall_s(self._elapsed_s(), asked_s=grant.job.wall_time_s),
                speed=sight.slot.speed,
                gpus=free_resources.free_gpus(of_slot, taken, wanted=grant.job.gpus),
                directory=directory_of(grant.job.id, self._options.work_dir),
            )
        )

    def _after(self, ended: Ended, sight: Sight) -> None:
        """See to what the end of a job's process means for the next."""
        if ended.died or ended.asks(LOOK_AT_NODE) or not sight.fit:
            self._lookout.look_soon()
        if image := ended.errand.grant.job.container:
            self._lookout.note_container(image, started=not ended.asks(CONTAINER_FAILED))
        self._give_up_if_dead(ended)
        if ended.status == FAULT:
            # The next job would fare no better.
            raise Leaving(f"fault of the agent with job {ended.errand.grant.job.id}", exit_code=REFUSED)

    def _give_up_if_dead(self, ended: Ended) -> None:
        """Let another process end what is left of a job whose process died, and hand the job back then."""
        if not ended.died:
            return
        errand, before = ended.errand, ended.errand.died_before
        log.event("job.process_died", job=errand.grant.job.id, how=ended.how)
        if ended.status is None and before is None:  # nothing was started
            self._hand_back(errand.grant, errand.configuration, minor=f"The pilot's process for the job {ended.how}")
            return
        times = 1 if before is None else before.times + 1
        how = ended.how if before is None else before.how
        asked_to = bool(self._stop) if before is None else before.asked_to
        strays = (*(before.strays if before else ()), *self._crew.strays())
        died = Died(how=how, strays=strays, times=times, asked_to=asked_to)
        if times > _MOST_DEATHS:
            self._give_up_without_process(errand, died)
        else:
            self._crew.start(replace(errand, died_before=died))

    def _give_up_without_process(self, errand: Errand, died: Died) -> None:
        """Do in this process what no other one can: none starts (the payload has used them up), or none survives.

        It takes seconds at most, so that nobody has to renew the lease meanwhile.
        """
        job, match_id = errand.grant.job.id, errand.grant.match_id
        ending = payload_records.Ending(payload_records.remains_of(match_id, strays=died.strays))
        if not ending.wait(within_s=2 * payload_records.END_WITHIN_S):
            log.event("job.left_behind", job=job, deaths=died.times)
            return
        payload_records.PayloadRecord(match_id, account="", work_directory=self._options.work_dir).remove()
        log.event("payload.ended", job=job)
        self._hand_back(errand.grant, errand.configuration, minor=died.minor, fault=died.fault)
        if not self._stop:
            stale_workspaces.remove(errand.directory, accounts=errand.configuration.place.payload_users)

    def _hand_back(self, grant: Grant, configuration: Configuration, *, minor: str, fault: str | None = None) -> None:
        lease = grant.lease(configuration=configuration, bell=self._bell)
        give_up_at = monotonic() + (_LAST_WORDS_S if self._stop else _HAND_BACK_S)
        try:
            status = self._persistence.call(
                "job.hand_back",
                lambda: self._server.finish(
                    lease, exit_code=RESCHEDULE, minor=minor, usage=Usage(), output=None, fault=fault
                ),
                until=lambda: give_up_at,
            )
            log.event("job.handed_back", job=grant.job.id, status=status)
        except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("job.not_reported", job=grant.job.id, error=error)

    # ---- the end

    def _wind_down(self) -> None:
        """Let the jobs that run come to their end, or to that of the time after a signal."""
        while True:
            while (ended := self._crew.next_ended()) is not None:
                self._give_up_if_dead(ended)
            if not self._crew.running:
                return
            if self._stop.asked_at is None:
                if monotonic() >= self._lookout.look_at:
                    self._keep_token()
                self._rest(until=self._lookout.look_at)
                continue
            # Again, for one that was started just when the signal came.
            self._crew.pass_on(signal.SIGTERM)
            kill_at = self._stop.asked_at + self._options.stop_within_s + _KILL_AFTER_S
            if monotonic() >= kill_at + _KILLED_WITHIN_S:
                log.event("pilot.left_behind", jobs=len(self._crew.running))
                return
            if monotonic() >= kill_at:
                self._crew.pass_on(signal.SIGKILL)
                kill_at += _KILLED_WITHIN_S
            self._rest(until=kill_at)

    def _keep_token(self) -> None:
        """Have the token renewed, for the last words; nothing depends on it."""
        self._lookout.look_later()
        sight = self._lookout.sight
        if sight is not None:
            self._try("pilot.report", lambda: self._server.report({**sight.report, "ok": True}), for_s=0.0)

    def _leave(self, leaving: Leaving) -> int:
        if leaving.exit_code == UNREACHABLE:
            log.event("pilot.server_unreachable", error=leaving.reason)
            return UNREACHABLE
        log.event("pilot.leaving", reason=leaving.reason, jobs=self._jobs)
        if self._known:
            failed = {"failed": True} if leaving.exit_code == REFUSED else {}
            words = {"leaving": leaving.reason[:255], **failed}
            self._try("pilot.last_words", lambda: self._server.report(words), for_s=_LAST_WORDS_S)
            self._shipping.ship_rest()
        return leaving.exit_code

    # ---- waiting

    def _ask(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Ask again while the server is not reachable, as long as patience lasts and nobody wants the pilot to leave.

        While jobs run patience does not end: they come to their end by themselves, and the pilot must see to that.
        """
        asked_at = monotonic()

        def until() -> float:
            self._crew.reap()
            since = math.inf if self._crew.running else max(asked_at, self._crew.idle_since)
            return since + self._options.patience_s

        return self._persistence.call(what, attempt, until=until, interrupted=self._wish)

    def _try(self, what: str, attempt: Callable[[], None], *, for_s: float) -> None:
        """Ask, and go on without an answer if there is none in time."""
        give_up_at = monotonic() + for_s
        try:
            self._persistence.call(what, attempt, until=lambda: give_up_at)
        except (UnreachableError, MalformedAnswerError, RefusedError) as error:
            log.event("call.given_up", call=what, error=error)

    def _rest(self, *, until: float) -> None:
        """Sleep until then, a signal, the end of a job, or the next look for the drain file."""
        self._shipping.ship_if_due()
        self._bell.wait(min(until - monotonic(), drain.LOOK_EVERY_S))

    def _elapsed_s(self) -> float:
        return monotonic() - self._started_at


def _refused(error: RefusedError | OtherProtocolError) -> Leaving:
    if isinstance(error, OtherProtocolError):
        return Leaving(str(error), exit_code=REFUSED)
    if error.code == _DRAINED:
        return Leaving(f"drained by the server: {error.detail}")
    return Leaving(f"refused by the server: {error}", exit_code=REFUSED)
