"""The security log: who did, or tried, from where, what that matters to security; a row and a line of the log.

Facts are names, ids and states, never a secret: what looks like one is masked (``wms.kernel.log_lines``).
"""

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from django.db import DatabaseError, transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from wms.accounts.domain import REFUSALS, SecurityEventKind
from wms.accounts.models import SecurityEvent, User
from wms.kernel.addresses import address_block, client_address
from wms.kernel.log_lines import Fact, escaped, safe_facts, safe_text

logger = logging.getLogger(__name__)

#: The same refusal is one row for so long, and counted in it.
REFUSALS_WINDOW_S: Final = 60.0
#: So many different refusals have rows of their own in each window and process; further ones are counted by kind.
MAX_REFUSALS_IN_WINDOW: Final = 30


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
        actor: the user who did it; by default that of *request*. A text names what is no user (``command_line``).
        address: of the client; by default that of *request*.
        target: what it was done to, such as "user bob" or "CE x at site y".
        request: where actor and address are taken from.
        facts: names, ids and states; of changed options their names.

    Raises:
        RuntimeError: a refusal inside a transaction.
    """
    if request is not None:
        user = getattr(request, "user", None)
        actor = actor or (user if isinstance(user, User) else str(user) if _is_machine(user) else None)
        address = address or client_address(request)
    event = _Event(
        kind=kind,
        actor_id=actor.pk if isinstance(actor, User) else None,
        actor_name=escaped(actor.username if isinstance(actor, User) else actor or "")[:150],
        address=escaped(address)[:64],
        target=safe_text(target),
        facts=safe_facts(facts),
    )
    if kind in REFUSALS:
        refusals.count(event)
    else:
        _write(event)


def command_line(command: str) -> str:
    """Return the actor's name for what ``manage.py`` *command* does; nobody's user name has a space."""
    return f"manage.py {command}"


def _is_machine(user: object) -> bool:
    """Return whether a pilot, a job or a site sent the request."""
    return bool(getattr(user, "is_authenticated", False)) and not isinstance(user, User)


def _write(event: _Event) -> int:
    _log(event, times=1)
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


@dataclass(slots=True)
class _Counted:
    """One refusal of the window."""

    times: int = 0
    row: int | None = None


@dataclass(slots=True)
class _Refusals:
    """The refusals of this process within the last window.

    A flood must fill neither the table nor the log: the same refusal is one row, written when it was seen once, twice,
    four times and so on, and only so many different ones have rows.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    began: float = 0.0
    counted: dict[tuple[str, ...], _Counted] = field(default_factory=dict)

    def count(self, event: _Event) -> None:
        """Count the refusal, and write it if it is time."""
        with self.lock:
            now = time.monotonic()
            if not self.counted or now - self.began >= REFUSALS_WINDOW_S:
                self.began = now
                self.counted = {}
            key = _key_of(event)
            if key not in self.counted and len(self.counted) >= MAX_REFUSALS_IN_WINDOW:
                event = _Event(
                    kind=event.kind, actor_id=None, actor_name="", address="", target="", facts={"many": True}
                )
                key = _key_of(event)
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


def _key_of(event: _Event) -> tuple[str, ...]:
    return (event.kind, event.actor_name, address_block(event.address), event.target, repr(sorted(event.facts.items())))


def _write_times(event: _Event, counted: _Counted, *, times: int) -> None:
    if times == 1:
        counted.row = _write(event)
    elif counted.row is not None:  # else another thread is about to write it
        _log(event, times=times)
        SecurityEvent.objects.filter(pk=counted.row).update(times=times)


refusals = _Refusals()
