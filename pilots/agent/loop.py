"""The pilot's life: configuration, check of the node, then job after job while time is left (PIL §2.1, DESIGN §3.7)."""

from __future__ import annotations

import math
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from pilots.agent import log, node
from pilots.agent.backoff import Backoff
from pilots.agent.bell import Bell, StopRequest
from pilots.agent.client import Client, RefusedError, UnreachableError
from pilots.agent.clock import monotonic
from pilots.agent.configuration import Configuration
from pilots.agent.credentials import PILOT_TOKEN_PREFIX
from pilots.agent.fields import MalformedAnswerError, Record
from pilots.agent.lease import Lease
from pilots.agent.offer import MIN_CPU_TIME_S, Resources, offer_of, resources_of
from pilots.agent.options import Options
from pilots.agent.persistence import InterruptedCallError, Persistence
from pilots.agent.pools import Pools, whereabouts_of
from pilots.agent.server import NothingFits, Server
from pilots.agent.shipping import Shipping
from pilots.agent.slot import Slot
from pilots.agent.storage import Storage
from pilots.agent.version import PROTOCOL
from pilots.agent.wrapper import Wrapper

DONE, REFUSED, UNREACHABLE = 0, 1, 3

#: Of a single operation of the network.
_TIMEOUT_S = 20.0
#: Between two jobs, or two requests for one, the node is looked at again after so long: disks fill up, and the answer
#: renews the pilot's token, which nothing else does while there is no job.
_LOOK_AGAIN_S = 900.0
#: Last words are worth this long.
_LAST_WORDS_S = 5.0

Result = TypeVar("Result")


class Leaving(Exception):  # noqa: N818 - no error, but how the loop ends
    """The pilot's life is over, for a reason that the server is told."""

    def __init__(self, reason: str, *, exit_code: int = DONE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


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
        self._must_register = not token.startswith(PILOT_TOKEN_PREFIX)
        self._bell = Bell()
        self._stop = StopRequest(self._bell)
        self._persistence = Persistence(self._bell)
        self._server = Server(Client(options.server, timeout_s=_TIMEOUT_S, ca=options.ca), token=token)
        self._shipping = Shipping(self._server)
        self._pools = Pools(
            lambda where: self._ask("pilot.submit_pools", lambda: self._server.submit_pools(**where._asdict()))
        )
        self._storage = Storage(ca=options.ca)
        self._jobs = 0
        #: From when on containers are offered again.
        self._containers_at = -math.inf
        self._looked_at = -math.inf

    def run(self) -> int:
        """Live; return the exit code of the process."""
        self._stop.listen()
        known = False
        try:
            if self._must_register:
                self._register()
            known = True
            self._work()
        except Leaving as leaving:
            return self._leave(leaving, known=known)
        except RefusedError as error:
            return self._leave(Leaving(f"refused by the server: {error}", exit_code=REFUSED), known=known)
        except InterruptedCallError:
            return self._leave(Leaving(f"stopped by {self._stop.signal_name}"), known=known)
        except (UnreachableError, MalformedAnswerError) as error:
            log.event("pilot.server_unreachable", error=error)
            return UNREACHABLE
        except Exception as error:  # noqa: BLE001 - the border of the process: the server must hear of it
            log.event("agent.fault", error=repr(error), traceback=traceback.format_exc())
            return self._leave(Leaving(f"fault of the agent: {error!r}", exit_code=REFUSED), known=known)
        finally:
            self._server.close()

    def _register(self) -> None:
        options = self._options
        wanted = {name: getattr(options, name) for name in ("vo", "site", "ce", "queue", "stamp")}
        pilot = self._ask(
            "pilot.register", lambda: self._server.register({**wanted, "host_name": socket.gethostname()[:255]})
        )
        log.event("pilot.registered", pilot=pilot, site=options.site, ce=options.ce, queue=options.queue)

    def _work(self) -> NoReturn:
        """Take job after job; ends only by an exception."""
        configuration, resources = self._prepare()
        backoff = Backoff(first_s=configuration.match_retry_after_s, limit_s=self._options.max_wait_s)
        idle_since = monotonic()
        while True:
            self._shipping.ship_if_due()
            if monotonic() - self._looked_at > _LOOK_AGAIN_S:
                configuration, resources = self._prepare()
            self._refuse_to_go_on(resources)
            found = self._match(self._offer(resources, configuration), configuration)
            if isinstance(found, Lease):
                self._carry_out(found, configuration, resources)
                backoff.reset()
                idle_since = monotonic()
                continue
            wait_s = backoff.next_s(at_least_s=found.retry_after_s)
            if monotonic() + wait_s - idle_since > self._options.max_idle_s:
                raise Leaving("no job for me")
            log.event("match.nothing", again_in_s=wait_s)
            self._sleep(wait_s)

    def _prepare(self) -> tuple[Configuration, Resources]:
        """Fetch the configuration, look at the node and tell what was found."""
        configuration, answer = self._ask("pilot.configuration", self._server.configuration)
        if configuration.protocol != PROTOCOL:
            sentence = f"the server speaks protocol {configuration.protocol}, this agent {PROTOCOL}"
            raise Leaving(f"{sentence}; a newer agent is needed", exit_code=REFUSED)
        found = node.look(
            self._options.work_dir,
            min_free_disk_mb=configuration.min_free_disk_mb,
            skew_s=answer.skew_s(now=time.time() - (monotonic() - answer.sent_at)),
        )
        for check in found.checks:
            log.event("node.check", check=check.name, ok=check.ok, detail=check.detail)
        self._ask("pilot.report", lambda: self._server.report(found.as_record()))
        if not found.ok:
            raise Leaving("the node is not fit", exit_code=REFUSED)
        self._looked_at = monotonic()
        resources = resources_of(self._options, configuration.place, found)
        if monotonic() < self._containers_at:
            resources = replace(resources, container=False)
        return configuration, resources

    def _refuse_to_go_on(self, resources: Resources) -> None:
        if self._stop:
            raise Leaving(f"stopped by {self._stop.signal_name}")
        if self._options.max_jobs is not None and self._jobs >= self._options.max_jobs:
            raise Leaving(f"{self._jobs} jobs done, as many as wanted")
        if resources.cpu_left_s(self._elapsed_s()) < min(MIN_CPU_TIME_S, resources.cpu_time_s):
            raise Leaving("out of time")

    def _offer(self, resources: Resources, configuration: Configuration) -> Record:
        offer = offer_of(resources, elapsed_s=self._elapsed_s())
        where = whereabouts_of(self._options, configuration.place)
        return offer if where is None else self._pools.added_to(offer, where)

    def _match(self, offer: Record, configuration: Configuration) -> Lease | NothingFits:
        return self._ask("match", lambda: self._server.match(offer, configuration=configuration, bell=self._bell))

    def _carry_out(self, lease: Lease, configuration: Configuration, resources: Resources) -> None:
        self._jobs += 1
        log.event("job.leased", job=lease.job.id, match=lease.match_id)
        slot = Slot(
            server=self._server,
            bell=self._bell,
            stop=self._stop,
            persistence=self._persistence,
            storage=self._storage,
            work_directory=self._options.work_dir,
            grace_s=self._options.grace_s,
        )
        wall_left_s = resources.payload_wall_s(self._elapsed_s(), asked_s=lease.job.wall_time_s)
        wrapper = Wrapper(slot, lease, configuration=configuration, wall_left_s=wall_left_s)
        if not wrapper.run():
            self._looked_at = -math.inf
        if wrapper.container_failed:
            # Offered at once, the same job would come back, until it has been tried too often.
            self._containers_at = monotonic() + _LOOK_AGAIN_S

    def _ask(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Ask again while the server is not reachable, as long as patience lasts and nobody wants the pilot to stop."""
        give_up_at = monotonic() + self._options.patience_s
        return self._persistence.call(what, attempt, until=lambda: give_up_at, interrupted=lambda: bool(self._stop))

    def _sleep(self, seconds: float) -> None:
        wake_at = monotonic() + seconds
        while (left_s := wake_at - monotonic()) > 0 and not self._stop:
            self._bell.wait(left_s)

    def _elapsed_s(self) -> float:
        return monotonic() - self._started_at

    def _leave(self, leaving: Leaving, *, known: bool) -> int:
        log.event("pilot.leaving", reason=leaving.reason, jobs=self._jobs)
        if known:
            give_up_at = monotonic() + _LAST_WORDS_S
            try:
                self._persistence.call(
                    "pilot.last_words",
                    lambda: self._server.report({"leaving": leaving.reason[:255]}),
                    until=lambda: give_up_at,
                )
            except (UnreachableError, MalformedAnswerError, RefusedError) as error:
                log.event("pilot.last_words_lost", error=error)
            self._shipping.ship_rest()
        return leaving.exit_code
