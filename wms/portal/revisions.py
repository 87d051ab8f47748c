"""Revisions of pages with jobs: numbers that change whenever a job on the page changes its status.

Each process follows the stream of changes in memory: at most one reading a second, by the request that needs it,
whatever the number of open pages.
"""

from collections.abc import Hashable
from threading import Lock
from time import monotonic
from uuid import UUID

from wms.accounts.models import VO, Group, User
from wms.jobs.queries.changes import WINDOW, Position, now, touched

#: Age of a reading, in seconds, from which on the next request reads again.
MAX_AGE_S = 1.0
#: Owners, groups, VOs and submissions remembered; beyond it, or if the last reading is too long ago, all pages count as
#: changed once.
MOST_KEYS = 200_000

_ALL = ("all", 0)


class Revisions:
    """The last transaction that changed a job, by owner, group, VO and submission."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read_at = float("-inf")
        self._end: Position | None = None
        #: Number of the transaction before which nothing is remembered.
        self._begin = 0
        self._last: dict[Hashable, int] = {}

    def of(self, *keys: Hashable) -> tuple[int, ...]:
        """Return the revisions of these keys."""
        with self._lock:
            if monotonic() - self._read_at >= MAX_AGE_S:
                self._read()
            return (self._begin, *(self._last.get(key, 0) for key in keys))

    def _read(self) -> None:
        end = now()
        since = self._end
        if since is None or not since <= end <= Position(since.transaction_number + WINDOW):
            self._forget(end)
        else:
            for change in touched(since, end):
                for key in (
                    ("owner", change.owner_id),
                    ("group", change.group_id),
                    ("vo", change.vo_id),
                    ("submission", change.submission_id),
                    _ALL,
                ):
                    self._last[key] = max(change.transaction_number, self._last.get(key, 0))
            if len(self._last) > MOST_KEYS:
                self._forget(end)
        self._end, self._read_at = end, monotonic()

    def _forget(self, end: Position) -> None:
        self._last.clear()
        self._begin = end.transaction_number


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
