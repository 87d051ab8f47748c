"""The stream of changes of jobs: every line of their histories, in the order of the transactions that wrote them.

A line is shown when every transaction with a smaller number has ended, so that no line appears later between two that
were read: a reader who continues after the last line that it got misses none, and gets none twice (ADR 62).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.db import connection
from django.db.models import Max, Q, QuerySet

from wms.accounts.models import User
from wms.jobs.models import Job, JobHistory

#: Transactions looked at by one statement: a reader from long ago catches up by several.
WINDOW: Final = 20_000
#: Windows of one reading.
_MOST_WINDOWS: Final = 10
_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Position(NamedTuple):
    """A place in the stream: behind this line of this transaction."""

    transaction_number: int
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A part of the stream, oldest first; the next part begins at *end*."""

    lines: Sequence[JobHistory]
    end: Position
    #: Whether there may be more already.
    is_partial: bool


class Touched(NamedTuple):
    """The jobs of one submission have changed; *transaction_number* is the last that did."""

    owner_id: int
    group_id: int
    vo_id: int
    submission_id: object
    transaction_number: int


def now() -> Position:
    """Return the present end of the stream."""
    with connection.cursor() as cursor:
        cursor.execute(_HORIZON)
        (horizon,) = cursor.fetchone()
    return Position(horizon)


def changes(since: Position, *, by: User, at_most: int) -> Changes:
    """Return the next changes of jobs visible to *by*.

    Args:
        since: end of the part read before.
        by: the caller.
        at_most: lines; all of them are read in few statements, each of WINDOW transactions.
    """
    horizon, lines = now(), list[JobHistory]()
    for _ in range(_MOST_WINDOWS):
        end = min(Position(since.transaction_number + WINDOW), horizon)
        if end <= since:
            break
        visible = _between(since, end).filter(job__in=Job.objects.visible_to(by))
        lines += visible.order_by("transaction_number", "pk")[: at_most + 1 - len(lines)]
        if len(lines) > at_most:
            last = lines[at_most - 1]
            return Changes(lines=lines[:at_most], end=_position_of(last), is_partial=True)
        since = end
    return Changes(lines=lines, end=since, is_partial=since < horizon)


def touched(since: Position, end: Position) -> list[Touched]:
    """Return the submissions whose jobs have changed between two positions."""
    lines = _between(since, end).values("job__owner", "job__group", "job__vo", "job__submission")
    rows = lines.annotate(last=Max("transaction_number")).values_list(
        "job__owner", "job__group", "job__vo", "job__submission", "last"
    )
    return [Touched(*row) for row in rows.order_by()]


def _between(since: Position, end: Position) -> QuerySet[JobHistory]:
    """Return the lines behind *since*, of transactions before that of *end*."""
    # Uses index: job_history_in_order
    lines = JobHistory.objects.filter(
        transaction_number__gte=since.transaction_number, transaction_number__lt=end.transaction_number
    )
    return lines.exclude(Q(transaction_number=since.transaction_number, pk__lte=since.line)) if since.line else lines


def _position_of(line: JobHistory) -> Position:
    return Position(line.transaction_number or 0, line.pk)
