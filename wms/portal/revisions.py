"""Revisions of pages with jobs: numbers that change whenever the history of a job on the page gets a line.

Each process follows the stream of changes in memory: at most one reading a second, by the request that needs it,
whatever the number of open pages.
"""

from collections.abc import Hashable
from threading import Lock
from time import monotonic
from uuid import UUID

from wms.accounts.models import VO, Group, User
from wms.jobs.queries.changes import Position, now, touched

#: Age of a reading, in seconds, from which on the next request reads again.
MAX_AGE_S = 1.0
#: Owners, groups, VOs and submissions remembered. Beyond it all pages count as changed once.
MOST_KEYS = 200_000
#: Transactions since the last reading that are looked through; after more of them, pages count as changed once.
MOST_TRANSACTIONS = 20_000

_ALL = ("all", 0)


class Revisions:
    """The last change of a job, by owner, group, VO and submission, as the id of its line in the history."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read_at = float("-inf")
        self._end: Position | None = None
        #: The transaction before which no change is remembered.
        self._begin = 0
        self._last: dict[Hashable, int] = {}

    def of(self, *keys: Hashable) -> tuple[int, ...]:
        """Return the revisions of these keys."""
        with self._lock:
            if monotonic() - self._read_at >= MAX_AGE_S:
                self._read()
            return (self._begin, *(self._last.get(key, 0) for key in keys))

    def _read(self) -> None:
        end, since = now(), self._end
        if since is None or not 0 <= end.end - since.first <= MOST_TRANSACTIONS:
            self._forget(end)
        else:
            self._remember(since, end)
        self._end, self._read_at = end, monotonic()

    def _remember(self, since: Position, end: Position) -> None:
        for change in touched(since, end):
            keys = (
                ("owner", change.owner_id),
                ("group", change.group_id),
                ("vo", change.vo_id),
                ("submission", change.submission_id),
                _ALL,
            )
            self._last.update((key, max(change.last, self._last.get(key, 0))) for key in keys)
        if len(self._last) > MOST_KEYS:
            self._forget(end)

    def _forget(self, end: Position) -> None:
        self._last.clear()
        self._begin = end.end


_revisions = Revisions()


def jobs_seen_by(user: User) -> tuple[int, ...]:
    """Return numbers that change whenever a job that *user* may see changes."""
    if user.is_operator:
        return _revisions.of(_ALL)
    groups = Group.objects.sharing().filter(memberships__user=user).order_by("pk").values_list("pk", flat=True)
    managed = VO.objects.filter(managers=user).order_by("pk").values_list("pk", flat=True)
    return _revisions.of(("owner", user.pk), *(("group", pk) for pk in groups), *(("vo", pk) for pk in managed))


def of_submission(submission: UUID) -> tuple[int, ...]:
    """Return numbers that change whenever a job of the submission changes."""
    return _revisions.of(("submission", submission))
