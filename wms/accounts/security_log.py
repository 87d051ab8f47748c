"""The security log: who did, or tried, from where, what that matters to security; a row and a line of the log.

Facts are names, ids and states, never a secret: what looks like one is masked (``wms.kernel.log_lines``).
"""

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.conf import settings
from django.db import DatabaseError, transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from wms.accounts.domain import REFUSALS, SecurityEventKind
from wms.accounts.models import SecurityEvent, User
from wms.kernel.addresses import address_block, client_address
from wms.kernel.callers import current_command, current_request
from wms.kernel.log_lines import Fact, escaped, safe_facts, safe_text

logger = logging.getLogger(__name__)

#: In the META of a request of which a refusal is recorded.
_RECORDED: Final = "wms.refusal_recorded"
#: The same refusal is one row for so long, and counted in it.
REFUSALS_WINDOW_S: Final = 60.0
#: So many different refusals of a kind have rows of their own in each window and process; further ones are counted by
#: address, and those of more addresses than MAX_ADDRESSES_IN_WINDOW by kind.
MAX_REFUSALS_IN_WINDOW: Final = 30
MAX_ADDRESSES_IN_WINDOW: Final = 10
_MAX_ROWS: Final = (MAX_REFUSALS_IN_WINDOW, MAX_ADDRESSES_IN_WINDOW, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What is written."""

    kind: SecurityEventKind
    actor_id: int | None
    actor_name: str
    address: str
    target: str
    facts: dict[str, Fact]


def record(
    kind: SecurityEventKind,
    *,
    actor: User | str | None = None,
    address: str = "",
    target: str = "",
    request: HttpRequest | Request | None = None,
    **facts: object,
) -> None:
    """Write one event to the security log.

    A change is written in the caller's transaction: it is in the log if and only if it has happened. A refusal is
    counted and written at once, so it must be recorded where no transaction is open that the refusal rolls back.
    Answers of 401, 403 and 429 are recorded by ``wms.accounts.middleware`` and need no call.

    Args:
        kind: what happened.
        actor: the user who did it, or a text that names what is no user; by default the user of *request*, or the
            command of ``manage.py`` that runs.
        address: of the client; by default that of *request*.
        target: what it was done to, such as "user bob" or "CE x at site y".
        request: where actor and address are taken from; by default the one that this thread answers.
        facts: names, ids and states; of changed options their names.

    Raises:
        RuntimeError: a refusal inside a transaction.
    """
    request = request or current_request.get()
    if actor is None:
        actor = _caller(request)
    if not address and request is not None:
        address = client_address(request)
    event = _Event(
        kind=kind,
        actor_id=actor.pk if isinstance(actor, User) else None,
        actor_name=escaped(actor.username if isinstance(actor, User) else actor)[:150],
        address=escaped(address)[:64],
        target=safe_text(target),
        facts=safe_facts(facts),
    )
    if kind in REFUSALS:
        if request is not None:
            request.META[_RECORDED] = True
        refusals.count(event)
    else:
        _write(event)


def has_refusal(request: HttpRequest) -> bool:
    """Return whether a refusal of *request* has been recorded, so that its answer need not be."""
    return _RECORDED in request.META


def _caller(request: HttpRequest | Request | None) -> User | str:
    """Return the user of the request; else, with a space in it that no user name has, the machine or the command."""
    if request is None:
        command = current_command.get()
        return f"manage.py {command}" if command else ""
    user = getattr(request, "user", None)
    if isinstance(user, User):
        return user
    return str(user) if getattr(user, "is_authenticated", False) else ""


def _write(event: _Event) -> int:
    if event.kind in REFUSALS:
        _log(event, times=1)
    else:
        transaction.on_commit(partial(_log, event, times=1), robust=True)
    row = SecurityEvent.objects.create(
        at=timezone.now(),
        kind=event.kind,
        actor_id=event.actor_id,
        actor_name=event.actor_name,
        address=event.address,
        target=event.target,
        facts=event.facts,
    )
    return row.pk


def _log(event: _Event, *, times: int) -> None:
    known = {"who": event.actor_name, "address": event.address, "target": event.target}
    facts: dict[str, object] = {name: value for name, value in known.items() if value}
    if times > 1:
        facts["times"] = times
    if event.facts:
        facts["facts"] = event.facts
    logger.log(logging.WARNING if event.kind in REFUSALS else logging.INFO, "security.%s", event.kind, extra=facts)


def remove_old(*, now: datetime) -> int:
    """Remove the events that are older than WMS_SECURITY_LOG_DAYS, and return how many."""
    # Uses index: security_event_by_time
    old = SecurityEvent.objects.filter(at__lte=now - timedelta(days=settings.WMS_SECURITY_LOG_DAYS))
    return old.delete()[0]


@dataclass(slots=True)
class _Counted:
    """One refusal of the window."""

    times: int = 0
    row: int | None = None


@dataclass(slots=True)
class _Refusals:
    """The refusals of this process within the last window.

    A flood must fill neither the table nor the log: the same refusal is one row, written when it was seen once, twice,
    four times and so on, and only so many different ones of a kind have rows.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    began: float = 0.0
    counted: dict[tuple[str, ...], _Counted] = field(default_factory=dict)
    #: How many rows each kind has, by how precise they are.
    rows: Counter[tuple[SecurityEventKind, int]] = field(default_factory=Counter)

    def count(self, event: _Event) -> None:
        """Count the refusal, and write it if it is time."""
        with self.lock:
            now = time.monotonic()
            if not self.counted or now - self.began >= REFUSALS_WINDOW_S:
                self.began = now
                self.counted = {}
                self.rows = Counter()
            event, key = self._row_of(event)
            counted = self.counted.setdefault(key, _Counted())
            counted.times += 1
            times = counted.times
        if times & (times - 1) == 0:  # a power of 2
            try:
                with transaction.atomic(durable=True):
                    _write_times(event, counted, times=times)
            except DatabaseError:  # it is refused all the same, and in the log
                logger.exception("security.not_stored", extra={"kind": event.kind})

    def forget(self) -> None:
        """Begin a new window, so that the next refusal is a new row; for tests, whose rows are rolled back."""
        with self.lock:
            self.counted = {}
            self.rows = Counter()

    def _row_of(self, event: _Event) -> tuple[_Event, tuple[str, ...]]:
        """Return as what the refusal is counted, and its key: as itself, else of its address, else of its kind.

        Each kind has rows of its own, so that nobody hides guessed passwords behind requests with tokens that are none.
        """
        for precision, candidate in enumerate((event, _of_address(event), _of_kind(event))):
            key, of_kind = _key_of(candidate), (event.kind, precision)
            if key in self.counted or self.rows[of_kind] < _MAX_ROWS[precision]:
                self.rows[of_kind] += key not in self.counted
                return candidate, key
        raise AssertionError("the last one is the same for all of a kind")


def _of_address(event: _Event) -> _Event:
    """Return only from where a refusal came; without a target it would say the same."""
    if not event.target:
        return _of_kind(event)
    return replace(event, actor_id=None, actor_name="", target="", facts={"many": True})


def _of_kind(event: _Event) -> _Event:
    return replace(event, actor_id=None, actor_name="", address="", target="", facts={"many": True})


def _key_of(event: _Event) -> tuple[str, ...]:
    return (event.kind, event.actor_name, address_block(event.address), event.target, repr(sorted(event.facts.items())))


def _write_times(event: _Event, counted: _Counted, *, times: int) -> None:
    if times == 1:
        counted.row = _write(event)
    elif counted.row is not None:  # else another thread is about to write it
        _log(event, times=times)
        SecurityEvent.objects.filter(pk=counted.row).update(times=times)


refusals = _Refusals()
