"""Runs of periodic tasks: each worker remembers the last run of each task, and its report stores them (ADR 97).

A run writes nothing by itself; the report, every ten seconds, is the statement that it would be without runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from threading import Lock

import msgspec
from msgspec.structs import replace

from wms.kernel.clock import current_time, monotonic
from wms.kernel.log_lines import safe_text


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last run of a periodic task, with times by the database's clock."""

    #: None: it has not run yet.
    started_at: datetime | None = None
    #: When a worker expected a task first that has not run yet.
    expected_at: datetime | None = None
    #: None: it runs, or its process has ended meanwhile.
    ended_at: datetime | None = None
    duration_s: float = 0.0
    #: Seconds after beat was to send it; 0 also for a run that was requested after a change.
    lateness_s: float = 0.0
    #: When the first of the latest runs began that all failed; None: the last run that ended did not fail.
    failing_since: datetime | None = None
    #: Class and text of the error of that run, without secrets.
    error: str = ""


class Runs:
    """The last runs of the tasks of this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: Not stored yet: of tasks that have not run.
        self._expected: dict[str, Run] = {}
        self._latest: dict[str, Run] = {}
        #: Tasks whose last run is not stored yet.
        self._changed: set[str] = set()

    def expect(self, tasks: Iterable[str]) -> None:
        """Note that this worker will run these tasks: one that never does is late."""
        self._expected = dict.fromkeys(tasks, Run(expected_at=current_time()))

    @contextmanager
    def noted(self, task: str, *, due_at: datetime | None) -> Iterator[None]:
        """Note the run of a task in this block, with its error.

        Args:
            task: its name.
            due_at: when beat sent it; None: it was requested after a change.
        """
        began, started_at = monotonic(), current_time()
        last = self._latest.get(task, Run())
        lateness_s = max(0.0, (started_at - due_at).total_seconds()) if due_at else 0.0
        run = replace(last, started_at=started_at, ended_at=None, duration_s=0.0, lateness_s=lateness_s)
        self._note(task, run)
        error = "the process was stopped"
        try:
            yield
            error = ""
        except Exception as raised:
            error = safe_text(f"{type(raised).__name__}: {raised}")
            raise
        finally:
            failing_since = (run.failing_since or started_at) if error else None
            ended = {"ended_at": current_time(), "duration_s": monotonic() - began}
            self._note(task, replace(run, **ended, failing_since=failing_since, error=error))

    def unstored(self) -> tuple[Mapping[str, Run], Mapping[str, Run]]:
        """Return what no report has stored yet: tasks that are expected to run, and last runs, each by task."""
        with self._lock:
            return self._expected, {task: self._latest[task] for task in self._changed}

    def note_stored(self, expected: Mapping[str, Run], latest: Mapping[str, Run]) -> None:
        """Note that these, of ``unstored``, are stored now."""
        with self._lock:
            if self._expected is expected:
                self._expected = {}
            self._changed -= {task for task, run in latest.items() if self._latest[task] is run}

    def _note(self, task: str, run: Run) -> None:
        with self._lock:
            self._latest[task] = run
            self._changed.add(task)


#: Of this process.
runs = Runs()
