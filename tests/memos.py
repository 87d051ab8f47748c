"""Pages without brief memos and readings of changes, for tests that count queries."""

import pytest

from wms.jobs.queries.changes import Position
from wms.kernel.memo import BriefMemo
from wms.portal import revisions
from wms.portal.revisions import KnownChanges, Revisions


@pytest.fixture(autouse=True)
def without_brief_memos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything anew for each page: otherwise the number of queries would depend on the clock."""
    monkeypatch.setattr(BriefMemo, "get", lambda _memo, _key, make: make())


@pytest.fixture(autouse=True)
def without_readings_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the streams of changes never, not once a second: likewise."""
    unread = Revisions()
    unread._reading = KnownChanges(end=Position(seen="1:1:"), begin=0, read_at=float("inf"))
    monkeypatch.setattr(revisions, "_revisions", unread)
