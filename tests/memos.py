"""Pages without brief memos, for tests that count queries."""

import pytest

from wms.kernel.memo import BriefMemo


@pytest.fixture(autouse=True)
def without_brief_memos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything anew for each page: otherwise the number of queries would depend on the clock."""
    monkeypatch.setattr(BriefMemo, "get", lambda _memo, _key, make: make())
