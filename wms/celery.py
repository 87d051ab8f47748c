"""The Celery application; its beat table is in wms.schedule."""

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from celery import Celery, Task
from celery.beat import PersistentScheduler, ScheduleEntry
from celery.exceptions import Ignore
from celery.signals import (
    beat_init,
    before_task_publish,
    celeryd_init,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_ready,
)
from django.conf import settings
from django.db import Error, connection
from kombu import Producer

from matching.queries.rest import is_at_rest
from wms.kernel import pulse
from wms.kernel.allocator import settle_memory
from wms.kernel.callers import current_request_id
from wms.kernel.checks import refuse_other_database, refuse_unsafe_start
from wms.kernel.clock import current_time, monotonic
from wms.kernel.database_version import refusal_of_running
from wms.kernel.db import periodic_task_lock
from wms.kernel.request_ids import OF_TASK
from wms.kernel.runs import runs
from wms.schedule import BEAT, REST_S, WHILE_BUSY

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
# Celery would run all of Django's checks, whose results it ignores: reading the URLs and their views for them takes a
# process most of its start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

#: Header of a task: when it expires.
_EXPIRES_AT: Final = "expires_by_database"
#: {task of which one run at a time works: its period in seconds}.
_PERIODIC: Final = {entry["task"]: entry["schedule"] for entry in BEAT.values()}


class CarefulTask(Task[..., object]):
    """A task that a worker ignores if it has expired, or if a newer program has migrated the database (ADR 89, 90).

    It also ignores a periodic task while another run of it works, in any worker (ADR 95).
    """

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the task."""
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        if refusal_of_running() or self._has_expired():
            raise Ignore
        if self.name not in _PERIODIC:
            return super().__call__(*args, **kwargs)
        with periodic_task_lock(self.name) as is_alone:
            if not is_alone:
                raise Ignore
            with runs.noted(self.name, due_at=self._due_at()):
                return super().__call__(*args, **kwargs)

    def _due_at(self) -> datetime | None:
        """Return when beat sent a periodic task, which expires after its period (wms.schedule)."""
        expires_at: str | None = self.request.get(_EXPIRES_AT)
        if expires_at is None:
            return None
        return datetime.fromisoformat(expires_at) - timedelta(seconds=_PERIODIC[self.name])

    def _has_expired(self) -> bool:
        expires_at: str | None = self.request.get(_EXPIRES_AT)
        return expires_at is not None and datetime.fromisoformat(expires_at) <= current_time()


@before_task_publish.connect
def expire_by_database(headers: dict[str, object], **_sent: object) -> None:
    """Let a task expire by the database's clock, where Celery would compare those of two machines."""
    if expires := headers.get("expires"):
        left = datetime.fromisoformat(str(expires)) - app.now()
        headers.update({"expires": None, _EXPIRES_AT: (current_time() + left).isoformat()})


@before_task_publish.connect
def send_request_id(headers: dict[str, object], **_sent: object) -> None:
    """Send the id of the request that sends a task, if one does, for the lines of its log."""
    if request_id := current_request_id.get():
        headers[OF_TASK] = request_id


@setup_logging.connect
def keep_logging(**_sent: object) -> None:
    """Keep the logging of Django's settings: Celery would raise the level of all loggers to its own."""


class SteadyCelery(Celery):
    """Celery with a clock that is never stepped: beat would send nothing for as long as it was set back."""

    _began = datetime.now(UTC) - timedelta(seconds=monotonic())

    def now(self) -> datetime:
        """Return the time."""
        return self._began + timedelta(seconds=monotonic())


class SteadyScheduler(PersistentScheduler):
    """Beat's scheduler.

    What ran in the future, by the clock of its last start, runs after its period all the same. While the system is at
    rest, the tasks of WHILE_BUSY are sent once in REST_S (ADR 104).
    """

    def setup_schedule(self) -> None:
        """Read the stored times."""
        #: {name of an entry: when it was sent, by ``monotonic``}.
        self._sent_at: dict[str, float] = {}
        super().setup_schedule()
        now = self.app.now()
        for entry in self.schedule.values():
            entry.last_run_at = min(entry.last_run_at or now, now)

    def apply_entry(self, entry: ScheduleEntry, producer: Producer | None = None) -> None:
        """Send the task of an entry that is due, unless it rests."""
        name = str(entry.name)
        rested_s = monotonic() - self._sent_at.get(name, float("-inf"))
        if name in WHILE_BUSY and rested_s < REST_S and _may_rest():
            return
        self._sent_at[name] = monotonic()
        super().apply_entry(entry, producer=producer)


def _may_rest() -> bool:
    try:
        return is_at_rest()
    except Error:  # the database is away, or has no tables yet
        connection.close()
        return False


_path = [*sys.path]
app = SteadyCelery("wms", task_cls=CarefulTask)
# It has put the current directory in front, which may be somebody else's.
sys.path[:] = _path
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = BEAT
app.conf.beat_scheduler = SteadyScheduler
# Of the worker of `control`: a thread for each periodic task, so that none waits for another, however long that takes.
app.conf.worker_concurrency = len(_PERIODIC)
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def refuse_to_start_unsafe(**sent: object) -> None:  # noqa: ARG001 - Celery's signature
    """Run those checks of `manage.py check` that refuse a start."""
    refuse_unsafe_start()
    refuse_other_database()


@worker_ready.connect
def settle(**_sent: object) -> None:
    """Settle the memory of a worker, whose tasks are loaded now, and let it send pulses."""
    settle_memory()
    runs.expect(_PERIODIC)
    pulse.begin(tasks_are_within_bound)


@beat_init.connect
def begin_pulse(**_sent: object) -> None:
    """Let beat send pulses."""
    pulse.begin()


#: {task of this worker: when it began, by a clock that stands still while the machine is suspended}.
_begun: dict[str, float] = {}


@task_prerun.connect
def note_begin(task_id: str, **_sent: object) -> None:
    """Note the begin of a task."""
    _begun[task_id] = time.monotonic()


@task_prerun.connect
def take_request_id(sender: "Task[..., object] | None", **_sent: object) -> None:
    """Let the lines of a task have the id of the request that has sent it."""
    current_request_id.set(sender.request.get(OF_TASK) or "" if sender else "")


@task_postrun.connect
def note_end(task_id: str, **_sent: object) -> None:
    """Note the end of a task."""
    _begun.pop(task_id, None)


@task_postrun.connect
def drop_request_id(**_sent: object) -> None:
    """Let later lines of this thread have none."""
    current_request_id.set("")


def tasks_are_within_bound() -> bool:
    """Return whether no task of this worker has run for longer than WMS_TASK_MOST_S; else its pulse stops (ADR 96)."""
    now = time.monotonic()
    longest_s: float = settings.WMS_TASK_MOST_S
    return now - min(tuple(_begun.values()), default=now) <= longest_s
