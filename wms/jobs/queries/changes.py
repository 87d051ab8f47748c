"""The stream of changes of jobs: every line of their histories, each once, those of a job in their order.

A position is a snapshot: the transactions whose lines were read. The next lines are those of transactions that are
visible now and were not then, however long ago they began, so that a reader misses none (ADR 62).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from django.db import connection
from django.db.models import BooleanField, F, Func, Max, Q, QuerySet, Value

from wms.accounts.models import User
from wms.jobs.models import Job, JobHistory

#: Lines of one statement, by their ids, when a part is continued.
_WINDOW: Final = 50_000
#: Statements of one reading.
_MOST_WINDOWS: Final = 10
_SNAPSHOT: Final = "SELECT pg_current_snapshot()::text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the stream.

    The lines that are visible in ``seen`` were read, and of those visible only in ``until`` the lines up to ``line``.
    """

    seen: str
    until: str = ""
    line: int = 0

    @property
    def first(self) -> int:
        """The number of the first transaction that may not have been seen."""
        return int(self.seen.split(":")[0])

    @property
    def end(self) -> int:
        """The number of the first transaction that began later."""
        return int((self.until or self.seen).split(":")[1])

    @property
    def running(self) -> frozenset[int]:
        """The numbers of earlier transactions that were not over."""
        numbers = (self.until or self.seen).split(":")[2]
        return frozenset(map(int, numbers.split(","))) if numbers else frozenset()


def before(position: Position, *, transactions: int) -> Position:
    """Return the position of a reader that knows all but the last *transactions* before this one."""
    first = max(1, position.end - transactions)
    return Position(seen=f"{first}:{first}:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A part of the stream; the next part begins at *end*."""

    lines: Sequence[JobHistory]
    end: Position
    #: Whether there may be more already.
    is_partial: bool


class Touched(NamedTuple):
    """A transaction has changed jobs of one submission."""

    transaction: int
    owner_id: int
    group_id: int
    vo_id: int
    submission_id: object


class _IsVisible(Func):
    """Whether a transaction, by its number, had committed in a snapshot."""

    function = "pg_visible_in_snapshot"
    template = "%(function)s(%(expressions)s::pg_snapshot)"
    arg_joiner = "::text::xid8, "
    output_field = BooleanField()


def now() -> Position:
    """Return the present end of the stream."""
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        (snapshot,) = cursor.fetchone()
    return Position(seen=snapshot)


def changes(since: Position, *, by: User, at_most: int) -> Changes:
    """Return the next changes of jobs visible to *by*.

    Args:
        since: end of the part read before.
        by: the caller.
        at_most: lines.
    """
    until = since.until or now().seen
    lines, line = list[JobHistory](), since.line
    unread = _between(since.seen, until).filter(job__in=Job.objects.visible_to(by)).order_by("pk")
    newest = _between(since.seen, until).aggregate(last=Max("pk"))["last"] or 0 if line else 0
    for _ in range(_MOST_WINDOWS):
        # The first lines of a part are found by the numbers of transactions alone, the others also by their ids.
        window = unread.filter(pk__gt=line, pk__lte=line + _WINDOW) if line else unread
        lines += window[: at_most + 1 - len(lines)]
        if len(lines) > at_most:
            end = Position(seen=since.seen, until=until, line=lines[at_most - 1].pk)
            return Changes(lines=lines[:at_most], end=end, is_partial=True)
        if not line or line + _WINDOW >= newest:
            return Changes(lines=lines, end=Position(seen=until), is_partial=False)
        line += _WINDOW
    return Changes(lines=lines, end=replace(since, until=until, line=line), is_partial=True)


def touched(since: Position, until: Position) -> list[Touched]:
    """Return which submissions' jobs have changed between two positions without ``until``, and by which transactions.

    While a transaction stays open for long, the lines since its begin are not read again and again.
    """
    columns = ("transaction_number", "job__owner", "job__group", "job__vo", "job__submission")
    # Uses index: job_history_in_order
    unseen = Q(transaction_number__gte=since.end) | Q(transaction_number__in=sorted(since.running))
    lines = JobHistory.objects.filter(
        unseen, _IsVisible(F("transaction_number"), Value(until.seen)), transaction_number__lt=until.end
    )
    return [Touched(*row) for row in lines.order_by().values_list(*columns).distinct()]


def _between(seen: str, until: str) -> QuerySet[JobHistory]:
    """Return the lines that are visible in one snapshot and not in an earlier one."""
    number = F("transaction_number")
    # Uses index: job_history_in_order
    return JobHistory.objects.filter(
        _IsVisible(number, Value(until)),
        ~_IsVisible(number, Value(seen)),
        transaction_number__gte=Position(seen=seen).first,
        transaction_number__lt=Position(seen=until).end,
    )
