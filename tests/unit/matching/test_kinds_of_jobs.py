"""Kinds of jobs that a process remembers for the expression of a site."""

from unittest.mock import Mock

import pytest

from matching.services import site_throttle
from matching.services.site_throttle import REMEMBERED_S, _Memory


def test_task_queues_that_are_gone_are_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(site_throttle, "monotonic", lambda: now)
    memory, throttle = _Memory(1), Mock(asks_of_the_job=("Owner",))
    kinds = memory.kinds(throttle, in_use=None)
    now += REMEMBERED_S
    assert memory.kinds(throttle, in_use=None) is kinds
    now += 1
    assert memory.kinds(throttle, in_use=kinds) is kinds  # of the same request
    assert memory.kinds(throttle, in_use=None) is not kinds
