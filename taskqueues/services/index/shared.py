"""The index of task queues of a process, renewed in the background (docs/architecture.md, The task-queue index)."""

import logging
from collections.abc import Hashable
from datetime import datetime
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import NamedTuple

from django.conf import settings
from django.db import close_old_connections, connection

from taskqueues.services.index.reading import read_all, read_changes
from taskqueues.services.index.snapshot import IndexDelta, Snapshot

logger = logging.getLogger(__name__)

#: Seconds: an older snapshot is replaced by a full reading; changes are kept twice as long (services.index_changes).
ANEW_AFTER_S = 300.0
#: Seconds between two readings for which nobody waits.
RENEWED_EVERY_S = 0.8
#: Seconds from the beginning of one reading to the next: requests that come meanwhile share it.
SHARED_WITHIN_S = 0.02
#: Seconds without use after which the index is not renewed until it is used again.
AT_REST_AFTER_S = 30.0


class ReadingFailedError(Exception):
    """The task queues could not be read from the database."""


class IndexState(NamedTuple):
    """Age and trouble of the index of this process."""

    #: Seconds since its last reading began; None: it was not needed yet.
    age_s: float | None
    #: Whether nobody needs it, so that it is not renewed.
    is_at_rest: bool
    #: Why the last reading failed; empty: it did not.
    failure: str


class SharedIndex:
    """A snapshot, and the thread that renews it about once a second.

    Requests never read themselves: all that need a reading begun after their arrival wait for the same one.
    """

    def __init__(self) -> None:
        #: Guards what follows. Requests wait for _changed, the thread for _wanted: if requests woke one another, those
        #: that wait would take the processor from the reading that they wait for.
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._wanted = Condition(self._lock)
        self._snapshot: Snapshot | None = None
        #: Requests wait for a reading begun at this moment or later.
        self._wanted_at = 0.0
        self._asked_at = 0.0
        #: Beginning of the last reading, and its error if it failed.
        self._attempted_at = 0.0
        self._failure: Exception | None = None
        self._thread: Thread | None = None

    def current(self) -> Snapshot:
        """Return a snapshot not older than WMS_TASK_QUEUE_INDEX_MAX_AGE_S (0: begun after this call)."""
        return self._begun_after(monotonic() - settings.WMS_TASK_QUEUE_INDEX_MAX_AGE_S)

    def renewed(self) -> Snapshot:
        """Return a snapshot begun after this call: it contains everything that was committed before."""
        return self._begun_after(monotonic())

    def state(self) -> IndexState:
        """Return how far the index is behind, without waiting for a reading."""
        with self._lock:
            now = monotonic()
            return IndexState(
                age_s=None if self._snapshot is None else now - self._snapshot.begun_at,
                is_at_rest=now - self._asked_at >= AT_REST_AFTER_S,
                failure="" if self._failure is None else type(self._failure).__name__,
            )

    def forget(self) -> None:
        """End the thread and drop the snapshot; the next use begins anew."""
        with self._lock:
            thread, self._thread, self._snapshot = self._thread, None, None
            self._changed.notify_all()
            self._wanted.notify_all()
        if thread is not None:
            thread.join()

    def note_taken(self, task_queue_id: int, user_priority: int, *, snapshot: Snapshot) -> None:
        """Count one job less at a level of a task queue; the last stays counted until a claim finds the level empty."""
        with self._lock:
            # Readings do not contain claims, so a newer snapshot lacks this one too.
            snapshot = self._snapshot or snapshot
            row = snapshot.row_of.get(task_queue_id)
            if row is not None:
                snapshot.jobs[row, user_priority] = max(1, snapshot.jobs[row, user_priority] - 1)

    def note_empty(self, task_queue_id: int, user_priority: int, *, snapshot: Snapshot) -> None:
        """Record that a claim, begun after *snapshot* was read, found no job at a level of a task queue.

        A job that came after the claim is a change for *snapshot*, so the next one will contain it. A newer snapshot in
        use may contain it already, and is not touched.
        """
        with self._lock:
            row = snapshot.row_of.get(task_queue_id)
            if row is not None and snapshot is (self._snapshot or snapshot):
                snapshot.note_empty(row, user_priority)

    def note_held_back(
        self, task_queue_id: int, user_priority: int, *, of: Hashable, until: datetime, snapshot: Snapshot
    ) -> None:
        """Record that a claim, begun after *snapshot* was read, found only jobs held back for *of* until then.

        It applies until a job is added to the level: as for ``note_empty``, a newer snapshot is not touched.
        """
        with self._lock:
            if snapshot is (self._snapshot or snapshot):
                snapshot.held_back.note((task_queue_id, user_priority), of=of, until=until)

    def _begun_after(self, moment: float) -> Snapshot:
        if connection.in_atomic_block:
            # Rows of this transaction may never be committed, so the snapshot is not shared.
            return read_all()
        with self._lock:
            self._asked_at = monotonic()
            while self._snapshot is None or self._snapshot.begun_at < moment:
                if self._failure is not None and self._attempted_at >= moment:
                    raise ReadingFailedError("The task queues could not be read.") from self._failure
                self._wanted_at = max(self._wanted_at, moment)
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="task-queue-index", daemon=True)
                    self._thread.start()
                self._wanted.notify_all()
                self._changed.wait()
            return self._snapshot

    def _run(self) -> None:
        try:
            while self._wait_for_turn():
                close_old_connections()
                try:
                    self._renew()
                except Exception as error:  # whatever it is, requests that wait for the snapshot must fail
                    logger.exception("index.reading_failed")
                    connection.close()
                    self._note_failure(error)
        finally:
            connection.close()

    def _wait_for_turn(self) -> bool:
        """Wait until a reading is due and record its beginning; False if this thread is to end."""
        with self._lock:
            while self._thread is current_thread():
                now = monotonic()
                is_wanted = self._wanted_at > self._attempted_at
                due_in_s = self._attempted_at + (SHARED_WITHIN_S if is_wanted else RENEWED_EVERY_S) - now
                if due_in_s <= 0 and (is_wanted or now - self._asked_at < AT_REST_AFTER_S):
                    self._attempted_at, self._failure = now, None
                    return True
                self._wanted.wait(due_in_s if due_in_s > 0 else None)
            return False

    def _renew(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or monotonic() - snapshot.begun_at > ANEW_AFTER_S:
            self._publish(read_all())
        else:
            self._publish(read_changes(snapshot))

    def _publish(self, reading: Snapshot | IndexDelta) -> None:
        with self._lock:
            if self._thread is not current_thread():
                return
            if isinstance(reading, Snapshot):
                self._snapshot = reading
            elif self._snapshot is not None:
                # Under the lock: otherwise notes of claims made meanwhile would be lost.
                self._snapshot = self._snapshot.next(reading)
            self._changed.notify_all()

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._failure = error
            self._changed.notify_all()


#: The index of this process.
index = SharedIndex()
