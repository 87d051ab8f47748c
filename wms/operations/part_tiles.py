"""Tiles about the processes of the system, and about its periodic tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from celery import current_app

from taskqueues.services.index.shared import index
from wms.kernel import liveness
from wms.kernel.liveness import LivenessReport, latest_runs
from wms.kernel.runs import Run
from wms.kernel.time_texts import duration
from wms.operations.parts import Parts, PartState, has_supervisor, read_parts
from wms.operations.tile import Tile

#: Seconds without a pulse, or without work, after which a part is red; a pulse comes every 5 s, a look every 10 s.
SILENT_S: Final = 30.0
HANGS_S: Final = 20.0
#: Restarts in ten minutes that need no attention.
MOST_RESTARTS: Final = 2
#: Seconds of an index that is in use; it is renewed every second.
OLDEST_INDEX_S: Final = 10.0
_NAMES: Final = {
    "web": "Web server",
    "control": "Worker control",
    "sites": "Worker sites",
    "beat": "Beat",
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
    "pilots": "Local pilots",
}
_REPORTS: Final = {liveness.BEAT: "beat and control", liveness.SITES: "sites"}
_LOOK_IN_LOG: Final = "Look in the log of `wms-server up` (journalctl -u wms) for the reason."


def part_tiles(*, now: datetime) -> Sequence[Tile]:
    """Return the tile of the supervisor, which is asked, and those of the parts that it has started."""
    if not has_supervisor():
        return [Tile(name="Supervisor", is_well=True, text="none: this web process was not started by wms-server up")]
    parts = read_parts()
    if parts is None:
        to_do = "Restart the service (systemctl restart wms): nothing that ends is started again."
        return [Tile(name="Supervisor", is_well=False, text="does not answer", to_do=to_do)]
    return [_supervisor_tile(parts, now=now), *(part_tile(part, now=now) for part in parts.parts)]


def _supervisor_tile(parts: Parts, *, now: datetime) -> Tile:
    since = now - timedelta(seconds=parts.supervisor_s)
    return Tile(name="Supervisor", is_well=True, text=f"runs {len(parts.parts)} parts", since=since)


def part_tile(part: PartState, *, now: datetime) -> Tile:
    """Return the tile of a part as its supervisor sees it."""
    name = _NAMES.get(part.name, part.name)
    times = "once" if part.restarts == 1 else f"{part.restarts} times"
    restarts = f"started again {times}; last reason: {part.last_reason}" if part.restarts else ""
    silent = max(part.processes, key=lambda process: process.silent_s, default=None)
    if part.running_s is None:
        text, to_do = f"is started again after a pause: {part.last_reason}", _LOOK_IN_LOG
        return Tile(name=name, is_well=False, text=text, to_do=to_do)
    since = now - timedelta(seconds=part.running_s)
    if part.left:
        text = f"{len(part.left)} processes hang and are left, as others were ended in vain ({_numbers(part.left)})"
        to_do = f"Restart the service (systemctl restart wms). {_LOOK_IN_LOG}"
        return Tile(name=name, is_well=False, text=text, since=since, to_do=to_do)
    if silent is not None and silent.silent_s >= SILENT_S:
        text = f"process {silent.pid} hangs: no pulse for {duration(silent.silent_s)}"
        to_do = "Wait: after 70 s it is ended and started again by itself."
        hangs_since = now - timedelta(seconds=silent.silent_s)
        return Tile(name=name, is_well=False, text=text, since=hangs_since, to_do=to_do)
    if part.hangs_s >= HANGS_S:
        hangs_since = now - timedelta(seconds=part.hangs_s)
        text = "does not work: it hangs, or waits for another part"
        to_do = f"Look at the other red tiles first. {_LOOK_IN_LOG}"
        return Tile(name=name, is_well=False, text=text, since=hangs_since, to_do=to_do)
    if part.restarts_lately > MOST_RESTARTS:
        return Tile(name=name, is_well=False, text=restarts, since=since, to_do=_LOOK_IN_LOG)
    processes = f"works, with {len(part.processes)} processes" if len(part.processes) > 1 else "works"
    return Tile(name=name, is_well=True, text="; ".join(filter(None, [processes, restarts])), since=since)


def _numbers(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))


def report_tiles(reports: Mapping[str, LivenessReport], *, now: datetime) -> Sequence[Tile]:
    """Return the tiles of the reports that beat sends and the workers carry out, on whatever machine."""
    return [_report_tile(name, reports.get(part), now=now) for part, name in _REPORTS.items()]


def _report_tile(name: str, report: LivenessReport | None, *, now: datetime) -> Tile:
    is_well = report is not None and now - report.reported_at < liveness.SILENT_AFTER
    return Tile(
        name=f"Reports of {name}",
        is_well=is_well,
        text="arrive every 10 s" if is_well else "none has arrived yet" if report is None else "have stopped",
        since=None if is_well or report is None else report.reported_at,
        to_do=""
        if is_well
        else "Look at the broker and at the parts of this name: without them no pilots are sent, and no lease expires.",
    )


def index_tile() -> Tile:
    """Return the tile of the index of task queues of this web process."""
    state = index.state()
    name = "Task-queue index"
    if state.failure or (not state.is_at_rest and (state.age_s or 0) > OLDEST_INDEX_S):
        text = f"cannot be read: {state.failure}" if state.failure else f"{duration(state.age_s or 0)} old"
        to_do = "Look at the database: pilots get no jobs until the index can be read."
        return Tile(name=name, is_well=False, text=text, to_do=to_do)
    if state.age_s is None or state.is_at_rest:
        return Tile(name=name, is_well=True, text="at rest: no pilot asks this web process")
    return Tile(name=name, is_well=True, text=f"{duration(state.age_s)} old")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTile(Tile):
    """The tile of a periodic task."""

    period_s: float
    run: Run


def task_tiles(reports: Mapping[str, LivenessReport], *, now: datetime) -> Sequence[TaskTile]:
    """Return the tile of each task of the beat table, those first that fail or are late."""
    runs = latest_runs(reports.values())
    periods = {entry["task"]: float(entry["schedule"]) for entry in current_app.conf.beat_schedule.values()}
    tiles = [task_tile(task, runs.get(task, Run()), period_s=period_s, now=now) for task, period_s in periods.items()]
    return sorted(tiles, key=lambda tile: (tile.is_well, tile.name))


def task_tile(task: str, run: Run, *, period_s: float, now: datetime) -> TaskTile:
    """Return the tile of a task by its last run; it is late after three periods and a minute without a start."""
    begun_at = _at(run)
    is_late = begun_at is not None and now - begun_at > timedelta(seconds=3 * period_s + 60)
    text, since, to_do = "works", run.started_at, ""
    if run.failing_since is not None:
        text, since = f"fails: {run.error}", run.failing_since
        to_do = "Look in the log for the error of this task, with its place in the program."
    elif is_late and run.started_at is not None and run.ended_at is None:
        text, to_do = "has not ended", "Look at the worker, and at the longest transaction."
    elif is_late:
        text = "is late" if run.started_at is not None else "has never run"
        since, to_do = begun_at, "Look at beat, the broker and the worker: nothing else sends or runs it."
    elif run.started_at is None:
        text = "has not run yet"
    is_well = not is_late and run.failing_since is None
    return TaskTile(name=task, is_well=is_well, text=text, since=since, to_do=to_do, period_s=period_s, run=run)


def _at(run: Run) -> datetime | None:
    return run.started_at or run.expected_at
