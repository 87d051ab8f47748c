"""The pulse of a process: sent while it works, and only where a supervisor listens."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from celery.signals import task_postrun, task_prerun
from pytest_django import Settings

from tests.pace import within
from wms.celery import tasks_are_within_bound
from wms.kernel import pulse


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Listen as the supervisor does; each pulse comes at once."""
    with TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        path = str(Path(directory) / "pulses")
        listener.bind(path)
        listener.settimeout(within(30))
        monkeypatch.setenv(pulse.VARIABLE, path)
        monkeypatch.setattr(pulse, "_EVERY_S", 0.01)
        yield listener


def test_a_process_sends_its_number_while_it_works(supervisor: socket.socket) -> None:
    answers = iter([False, False, True])
    asked: list[bool] = []

    def works() -> bool:
        asked.append(next(answers, False))
        return asked[-1]

    pulse.begin(works)
    assert supervisor.recv(64) == b"%d" % os.getpid()
    assert asked[:3] == [False, False, True]


def test_nothing_is_sent_where_nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(pulse.VARIABLE, raising=False)
    pulse.begin(lambda: pytest.fail("no thread is needed"))
    pulse.send()
    monkeypatch.setenv(pulse.VARIABLE, str(tmp_path / "nobody"))
    pulse.send()


def test_a_worker_with_a_task_over_its_bound_has_no_pulse(settings: Settings) -> None:
    task_prerun.send(sender=None, task_id="one")
    task_prerun.send(sender=None, task_id="two")
    assert tasks_are_within_bound()
    settings.WMS_TASK_MOST_S = -1
    assert not tasks_are_within_bound()
    task_postrun.send(sender=None, task_id="one")
    assert not tasks_are_within_bound()
    task_postrun.send(sender=None, task_id="two")
    settings.WMS_TASK_MOST_S = 0
    assert tasks_are_within_bound()
