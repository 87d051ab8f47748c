"""`manage.py direct`: the directors and the status agent, in the foreground."""

import logging
import signal
from datetime import datetime, timedelta
from random import SystemRandom

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import close_old_connections
from django.utils import timezone

from matching.queries.closings import closings_now
from pilots.services.fleet import Fleet
from pilots.services.provisioning import provision
from pilots.services.status_agent import look_after

logger = logging.getLogger(__name__)

_STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
#: When many pilots of this machine end at once, they are looked after together.
_PAUSE_S = 0.2


class Command(BaseCommand):
    help = (
        "Send pilots for what waits, and look after them, until SIGTERM or Ctrl-C; pilots of this machine then leave."
    )

    def handle(self, **_options: object) -> None:
        fleet = Fleet(directory=settings.WMS_DATA_DIR / "pilots", server_url=settings.WMS_SERVER_URL)
        period = timedelta(seconds=settings.WMS_DIRECTOR_CYCLE_S)
        since = next_cycle_at = timezone.now()
        # Blocked and waited for: none can come at a moment when it would be overlooked.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOP, signal.SIGCHLD})
        while True:
            now = timezone.now()
            due = now >= next_cycle_at
            self._cycle(fleet, since=since, send=due, now=now)
            if due:
                next_cycle_at = now + period
            if self._wait_until(next_cycle_at) in _STOP:
                break
        fleet.close()
        self._cycle(fleet, since=since, send=False, now=timezone.now())

    def _cycle(self, fleet: Fleet, *, since: datetime, send: bool, now: datetime) -> None:
        close_old_connections()
        try:
            look_after(fleet, watched_since=since, now=now)
            if send:
                provision(fleet, closings=closings_now, chance=SystemRandom(), now=now)
        except Exception:
            # The border of the cycle: a database that is away for a while must not end the pilots of this machine.
            logger.exception("director.cycle_failed")

    def _wait_until(self, then: datetime) -> int | None:
        """Wait; return the signal that cut it short: to stop, or SIGCHLD, for a pilot of this machine has ended."""
        stop = signal.sigtimedwait(_STOP, _PAUSE_S)
        if stop is not None:
            return stop.si_signo
        left_s = max(0.0, (then - timezone.now()).total_seconds())
        got = signal.sigtimedwait({*_STOP, signal.SIGCHLD}, left_s)
        return None if got is None else got.si_signo
