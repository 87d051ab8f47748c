"""The security log: security-relevant actions and refusals with actor and address, each a row and a log line.

Facts are names, ids and states, never a secret: what looks like one is masked (``wms.kernel.log_lines``).
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.conf import settings
from django.db import Error, transaction
from django.db.models import Model
from django.http import HttpRequest
from rest_framework.request import Request

from wms.accounts.domain import OF_CONFIGURATION, REFUSALS, SecurityEventKind
from wms.accounts.models import VO, SecurityEvent, User, concerned_vo_ids, identity_of
from wms.kernel.addresses import address_block, client_address
from wms.kernel.callers import current_command, current_request
from wms.kernel.clock import current_time
from wms.kernel.log_lines import Fact, escaped, safe_facts, safe_text

logger = logging.getLogger(__name__)

#: Key in the META of a request whose refusal is recorded.
_RECORDED: Final = "wms.refusal_recorded"
#: Seconds during which the same refusal is counted in one row.
REFUSALS_WINDOW_S: Final = 60.0
#: Different refusals of a kind with rows of their own, per window and process; further ones are counted by address, and
#: those of more addresses than MAX_ADDRESSES_IN_WINDOW by kind.
MAX_REFUSALS_IN_WINDOW: Final = 30
MAX_ADDRESSES_IN_WINDOW: Final = 10
_MAX_ROWS: Final = (MAX_REFUSALS_IN_WINDOW, MAX_ADDRESSES_IN_WINDOW, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """The content of one row."""

    kind: SecurityEventKind
    actor_id: int | None
    actor_name: str
    address: str
    target: str
    facts: dict[str, Fact]
    row_type: str
    row_id: str
    vo_ids: tuple[int, ...] | None

    @classmethod
    def of(
        cls,
        kind: SecurityEventKind,
        *,
        actor: User | str,
        address: str,
        target: str,
        row: Model | None,
        facts: Mapping[str, object],
    ) -> "_Event":
        """Return the event with texts that are safe to show and fit into their columns."""
        row_type, row_id = ("", "") if row is None else identity_of(row)
        return cls(
            row_type=row_type,
            row_id=row_id,
            vo_ids=_concerned(kind, row, facts),
            kind=kind,
            actor_id=actor.pk if isinstance(actor, User) else None,
            actor_name=escaped(actor.username if isinstance(actor, User) else actor)[:150],
            address=escaped(address)[:64],
            target=safe_text(target),
            facts=safe_facts(facts),
        )


def _concerned(kind: SecurityEventKind, row: Model | None, facts: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the VOs that a row concerns, and those that it concerned before its VOs were changed.

    A suspension concerns the VOs that the person is in; else what concerns a person is for operators.
    """
    if isinstance(row, User) and kind in {SecurityEventKind.USER_SUSPENDED, SecurityEventKind.USER_RESTORED}:
        return tuple(VO.objects.filter(groups__memberships__user=row).distinct().values_list("pk", flat=True))
    vo_ids, changes = concerned_vo_ids(row), facts.get("changes")
    changed = changes.get("vos") if facts.get("what") == "changed" and isinstance(changes, Mapping) else None
    if vo_ids is None or not isinstance(changed, list):
        return vo_ids
    added, removed = ({str(name)[1:] for name in changed if str(name)[0] == sign} for sign in "+-")
    vos = row.vos.all()  # type: ignore[union-attr]  # a row whose VOs were changed has some
    before = {vo.name for vo in vos} - added | removed
    # A row that served no VO by name served all.
    served = VO.objects.filter(name__in=before) if before else VO.objects.all()
    return tuple({*vo_ids, *served.values_list("pk", flat=True)})


def record(
    kind: SecurityEventKind,
    *,
    actor: User | str | None = None,
    address: str = "",
    target: str = "",
    row: Model | None = None,
    request: HttpRequest | Request | None = None,
    **facts: object,
) -> None:
    """Write one event to the security log.

    A change is written in the caller's transaction: it is logged if and only if it is committed. A refusal is counted
    and written at once, so it must be recorded outside of a transaction that the refusal rolls back.
    ``wms.accounts.middleware`` records answers of 401, 403 and 429.

    Args:
        kind: of the event.
        actor: the acting user, or a text for anything else; by default the user of *request*, or the current command
            of ``manage.py``.
        address: of the client; by default that of *request*.
        target: of the action, such as "user bob" or "CE x at site y".
        row: of the configuration, in whose history the event is; managers of the VOs that it concerns see it.
        request: source of actor and address; by default the current request of this thread.
        facts: names, ids and states; of changed options their names.

    Raises:
        RuntimeError: a refusal inside a transaction.
    """
    request = request or current_request.get()
    if not address and request is not None:
        address = client_address(request)
    actor = _caller(request) if actor is None else actor
    event = _Event.of(kind, actor=actor, address=address, target=target, row=row, facts=facts)
    if kind in REFUSALS:
        if request is not None:
            request.META[_RECORDED] = True
        refusals.count(event)
    else:
        _write(event)


def has_refusal(request: HttpRequest) -> bool:
    """Return whether a refusal of *request* is recorded, so that its answer need not be."""
    return _RECORDED in request.META


def _caller(request: HttpRequest | Request | None) -> User | str:
    """Return the user of the request; else the machine or the command, with a space, which no user name has."""
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
        at=current_time(),
        kind=event.kind,
        actor_id=event.actor_id,
        actor_name=event.actor_name,
        address=event.address,
        target=event.target,
        facts=event.facts,
        row_type=event.row_type,
        row_id=event.row_id,
        vo_ids=None if event.vo_ids is None else list(event.vo_ids),
    )
    return row.pk


def _log(event: _Event, *, times: int) -> None:
    texts = {"who": event.actor_name, "address": event.address, "target": event.target}
    facts: dict[str, object] = {name: value for name, value in texts.items() if value}
    if times > 1:
        facts["times"] = times
    if event.facts:
        facts["facts"] = event.facts
    logger.log(logging.WARNING if event.kind in REFUSALS else logging.INFO, "security.%s", event.kind, extra=facts)


def remove_old(*, now: datetime) -> int:
    """Remove the old events, and return their number.

    Changes of the configuration are old after WMS_KEEP_ADMIN_LOG_DAYS, the others after WMS_SECURITY_LOG_DAYS.
    """
    # By kind: among the oldest are all changes of the configuration, which would be read each time.
    short_lived = [kind for kind in SecurityEventKind if kind not in OF_CONFIGURATION]
    age = timedelta(days=settings.WMS_SECURITY_LOG_DAYS)
    # Uses index: security_event_by_kind
    removed, _ = SecurityEvent.objects.filter(kind__in=short_lived, at__lte=now - age).delete()
    if settings.WMS_KEEP_ADMIN_LOG_DAYS:
        age = timedelta(days=settings.WMS_KEEP_ADMIN_LOG_DAYS)
        # Uses index: security_event_by_kind
        removed += SecurityEvent.objects.filter(kind__in=OF_CONFIGURATION, at__lte=now - age).delete()[0]
    return removed


@dataclass(slots=True)
class _Counted:
    """One refusal of the window."""

    times: int = 0
    row: int | None = None


@dataclass(slots=True)
class _Refusals:
    """The refusals of this process within the last window.

    A flood must fill neither the table nor the log: the same refusal is one row, written at its first, second, fourth
    occurrence and so on, and the number of different ones of a kind is limited.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    began: float = 0.0
    counted: dict[tuple[str, ...], _Counted] = field(default_factory=dict)
    #: Number of rows by kind and precision.
    rows: Counter[tuple[SecurityEventKind, int]] = field(default_factory=Counter)

    def count(self, event: _Event) -> None:
        """Count the refusal, and write it if its count is a power of 2."""
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
            except Error:  # the request is refused all the same, and logged
                logger.exception("security.not_stored", extra={"kind": event.kind})

    def forget(self) -> None:
        """Begin a new window; for tests, whose rows are rolled back."""
        with self.lock:
            self.counted = {}
            self.rows = Counter()

    def _row_of(self, event: _Event) -> tuple[_Event, tuple[str, ...]]:
        """Return the event under which the refusal is counted, and its key: itself, else its address, else its kind.

        Each kind has rows of its own, so that requests with invalid tokens cannot hide guessed passwords.
        """
        for precision, candidate in enumerate((event, _of_address(event), _of_kind(event))):
            key, of_kind = _key_of(candidate), (event.kind, precision)
            if key in self.counted or self.rows[of_kind] < _MAX_ROWS[precision]:
                self.rows[of_kind] += key not in self.counted
                return candidate, key
        raise AssertionError("the last candidate is the same for all refusals of a kind")


def _of_address(event: _Event) -> _Event:
    """Return the event reduced to its address; one without a target, reduced to its kind."""
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
    elif counted.row is not None:  # else another thread is writing it
        _log(event, times=times)
        SecurityEvent.objects.filter(pk=counted.row).update(times=times)


refusals = _Refusals()
