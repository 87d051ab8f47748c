"""Pauses of the client in tests."""

import pytest

from wms.client import replicas, retries


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client repeat requests almost at once; the tests see which it repeats, and not when."""
    monkeypatch.setattr(retries, "_FIRST_S", 0.001)
    monkeypatch.setattr(replicas, "_RETRY_S", 0.1)
