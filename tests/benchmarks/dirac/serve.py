"""DIRAC's TaskQueueDB at the end of a pipe; run by the Python of the environment that ``install.sh`` makes.

It reads one JSON record from each line of standard input, and answers with one line: what was found, and ``taken_s``.
Nothing of DIRAC is here: what is called is the package as it was installed.

usage: serve.py CONFIGURATION
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import DIRAC
import MySQLdb
from DIRAC.WorkloadManagementSystem.DB.TaskQueueDB import TaskQueueDB

_DATABASE = "TaskQueueDB"
_AT_ONCE = 5000
#: Lists of a task queue, as the records to be loaded and the tables call them.
_LISTS = ("Sites", "BannedSites", "Platforms", "JobTypes", "Tags")
_QUEUE_COLUMNS = ("TQId", "Owner", "OwnerGroup", "VO", "CPUTime", "Priority", "Enabled")


class DiracFailedError(Exception):
    """DIRAC answered with an error."""


def main(configuration: str) -> None:
    """Answer until the end of the input."""
    # DIRAC writes its log to standard output.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    DIRAC.initialize(require_auth=False, log_level="ERROR", extra_config_files=[Path(configuration)])
    connection = MySQLdb.connect(host="localhost", user="root")
    connection.cursor().execute(f"CREATE DATABASE IF NOT EXISTS {_DATABASE}")
    connection.select_db(_DATABASE)
    service = _Service(TaskQueueDB(), connection)
    for line in sys.stdin:
        request = json.loads(line)
        command: Callable[..., dict[str, object]] = getattr(service, request.pop("command"))
        answers.write(json.dumps(command(**request)) + "\n")


class _Service:
    """The commands: each public method is one."""

    def __init__(self, database: Any, connection: Any) -> None:
        self._database = database
        self._connection = connection

    def load(self, *, file: str) -> dict[str, object]:
        """Fill DIRAC's tables: each line of the file is a task queue and its jobs, as pairs of id and priority."""
        records = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        begun = perf_counter()
        cursor = self._connection.cursor()
        cursor.execute("SET foreign_key_checks = 0, unique_checks = 0")
        self._insert("tq_TaskQueues", _QUEUE_COLUMNS, ([record[name] for name in _QUEUE_COLUMNS] for record in records))
        for name in _LISTS:
            rows = ((record["TQId"], value) for record in records for value in record[name])
            self._insert(f"tq_TQTo{name}", ("TQId", "Value"), rows)
        jobs = (
            (record["TQId"], job_id, priority, _weight(priority))
            for record in records
            for job_id, priority in record["jobs"]
        )
        self._insert("tq_Jobs", ("TQId", "JobId", "Priority", "RealPriority"), jobs)
        cursor.execute("ANALYZE TABLE tq_TaskQueues, tq_Jobs, " + ", ".join(f"tq_TQTo{name}" for name in _LISTS))
        cursor.fetchall()
        return {"taken_s": perf_counter() - begun}

    def match(self, *, offer: Mapping[str, object]) -> dict[str, object]:
        """Remove one job."""
        found, taken_s = _timed(lambda: self._database.matchAndGetJob(dict(offer)))
        return {"job": found.get("jobId"), "taken_s": taken_s}

    def insert(self, *, job_id: int, definition: Mapping[str, object], priority: int) -> dict[str, object]:
        """Insert one job."""
        _, taken_s = _timed(lambda: self._database.insertJob(job_id, dict(definition), priority))
        return {"taken_s": taken_s}

    def recalculate(self) -> dict[str, object]:
        """Compute the priorities of all task queues."""
        _, taken_s = _timed(self._database.recalculateTQSharesForAll)
        return {"taken_s": taken_s}

    def about(self) -> dict[str, object]:
        """Return the versions in use."""
        cursor = self._connection.cursor()
        cursor.execute("SELECT @@version, @@innodb_flush_log_at_trx_commit, @@innodb_buffer_pool_size DIV 1048576")
        version, flush, buffer_mb = cursor.fetchone()
        return {
            "dirac": DIRAC.version,
            "mariadb": version,
            "innodb_flush_log_at_trx_commit": flush,
            "innodb_buffer_pool_mb": buffer_mb,
        }

    def _insert(self, table: str, columns: Sequence[str], rows: "Iterator[Sequence[object]]") -> None:
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"
        cursor = self._connection.cursor()
        part: list[Sequence[object]] = []
        for row in rows:
            part.append(row)
            if len(part) == _AT_ONCE:
                cursor.executemany(statement, part)
                part = []
        if part:
            cursor.executemany(statement, part)
        self._connection.commit()


def _timed(call: Callable[[], Mapping[str, Any]]) -> tuple[Any, float]:
    """Return the value of one of DIRAC's answers, and the seconds that it took."""
    begun = perf_counter()
    answer = call()
    taken_s = perf_counter() - begun
    if not answer["OK"]:
        raise DiracFailedError(answer["Message"])
    return answer.get("Value"), taken_s


def _weight(priority: int) -> float:
    """Return the weight that DIRAC computes from a job's priority on insertion."""
    return {0: 1e-5, 10: 1e6}.get(priority, priority)


if __name__ == "__main__":
    main(sys.argv[1])
