"""`manage.py demo`: the whole system on its own servers, with the demonstration as its last stage."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from django.conf import settings

from pilots.agent.job import accounts, isolation
from pilots.agent.node.inspection import detected_platform
from pilots.domain.pilot import PilotStatus
from wms.demo import display, sample
from wms.demo.demonstration import Demonstration
from wms.demo.workload import submissions
from wms.kernel.private_files import FILE_MODE
from wms.stack import services
from wms.stack.directory import hint_for_commands
from wms.stack.errors import StackError
from wms.stack.listening import Listener
from wms.stack.parts import ActivityPart, Stage
from wms.stack.services import StackOptions, System
from wms.wire.protocol import API_V1

#: More than a pilot takes to start, and more than the longest job, on a slow machine.
STANDSTILL_S = 180.0
#: Shorter periods than on a grid, as people wait. Logs would hide the progress.
_SETTINGS = {
    "WMS_DIRECTOR_CYCLE_S": "1",
    "WMS_HEARTBEAT_S": "2",
    "WMS_MATCH_RETRY_AFTER_S": "1",
    "WMS_LOG_LEVEL": "ERROR",
}
_FAULTS_SHOWN = 20
_NOT_ISOLATED = (
    "This machine gives jobs neither namespaces nor accounts of their own: each can read what this account can, the\n"
    "keys of this system too. Give nobody else a log-in."
)
_ALIVE = [PilotStatus.SUBMITTED, PilotStatus.WAITING, PilotStatus.RUNNING]


class OtherDatabaseError(StackError):
    """The demonstration was started on a database that may hold other data."""


class CutShortError(StackError):
    """The demonstration was stopped before its end."""


class NotAsExpectedError(StackError):
    """Some jobs did not end as expected."""


def demonstrate(*, project: Path, data: Path, port: int, stay: bool) -> None:
    """Run the system and the demonstration in the foreground.

    Args:
        project: the directory of the package ``wms``.
        data: the data directory; made if missing.
        port: of the web server.
        stay: whether to run until stopped; otherwise it ends with the demonstration.

    Raises:
        StackError: the system could not run; or, without ``stay``, a job did not end as expected.
    """
    if "WMS_DATABASE_URL" in os.environ:
        raise OtherDatabaseError(
            "The demonstration gives users new passwords and requires a database of its own: unset WMS_DATABASE_URL."
        )
    begun: list[Demonstration] = []
    passwords = sample.new_passwords()

    def more(system: System) -> Sequence[Stage]:
        begun.append(_demonstration(system, passwords=passwords))
        return [[ActivityPart(function=begun[0].run)]]

    with TemporaryDirectory(prefix="wms-demo-") as made:
        configuration = Path(made) / sample.FILE.name
        configuration.write_text(sample.configuration(machine=detected_platform()), encoding="utf-8")
        options = StackOptions(
            project=project,
            data=data,
            listener=Listener(port=port),
            web_workers=2,
            configuration=configuration,
            # By variables of one short command, not in the file: that would be there for as long as the system.
            configuration_variables=sample.variables(passwords),
            defaults=_SETTINGS | {"WMS_HIDDEN_FROM_PAYLOADS": _closed_log(sys.stdout.fileno())},
            stay=stay,
        )
        services.run(options, greeting=lambda system: _report(begun[0], system, stay=stay), more=more)
    if not stay:
        _require_success(begun[0] if begun else None)


def _closed_log(output: int) -> str:
    """Close to other accounts the file to which the output goes, as the passwords are in it; return its path.

    Args:
        output: descriptor; nothing is done, and the path is empty, unless it is a file.
    """
    if not stat.S_ISREG(os.fstat(output).st_mode):
        return ""
    with suppress(PermissionError):  # another account has opened it, such as root
        os.fchmod(output, FILE_MODE)
    return str(Path(f"/proc/self/fd/{output}").readlink())


def _require_success(demonstration: Demonstration | None) -> None:
    if demonstration is None or not demonstration.finished:
        raise CutShortError("The demonstration was stopped before every job had ended.")
    if demonstration.faults:
        raise NotAsExpectedError(_verdict(demonstration))


def _demonstration(system: System, *, passwords: Mapping[str, str]) -> Demonstration:
    return Demonstration(
        host=system.options.listener.host,
        port=system.options.listener.port,
        passwords=passwords,
        watcher=sample.OPERATOR,
        submissions=submissions(),
        count_pilots=lambda: _count_pilots(system.environment["WMS_DATABASE_URL"]),
        standstill_s=STANDSTILL_S,
    )


def _count_pilots(database: str) -> int:
    """Return the number of living pilots; 0 while the database does not answer.

    Read with SQL: Django in this process has no database, as it was set up before the embedded one.
    """
    try:
        with psycopg.connect(database, connect_timeout=5) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pilots_pilot WHERE ended_at IS NULL AND status = ANY(%s)", [_ALIVE]
            ).fetchone()
    except psycopg.OperationalError:
        return 0
    return int(row[0]) if row else 0


def _report(demonstration: Demonstration, system: System, *, stay: bool) -> str:
    parts = ["", display.table_of(demonstration.jobs.values()), ""]
    parts += filter(None, [display.pi_of(demonstration.jobs.values())])
    if stay or not demonstration.faults:
        parts.append(_verdict(demonstration))
    parts += ["", *_addresses(system, demonstration.passwords)]
    if not (accounts.can_change_user() or isolation.has_namespaces()):
        parts += ["", _NOT_ISOLATED]
    return "\n".join([*parts, *(["", "Ctrl-C stops it.", ""] if stay else [])])


def _verdict(demonstration: Demonstration) -> str:
    faults, total = demonstration.faults, len(demonstration.jobs)
    if not faults:
        return f"All {total} jobs ended as they should."
    still_open = sum(not job.is_settled for job in demonstration.jobs.values())
    late = (
        f" ({still_open} are still open: no job changed for {demonstration.standstill_s:.0f} s)" if still_open else ""
    )
    more = [f"… and {len(faults) - _FAULTS_SHOWN} more."] if len(faults) > _FAULTS_SHOWN else []
    lines = [f"Not every one of the {total} jobs ended as it should{late}:", *faults[:_FAULTS_SHOWN], *more]
    return "\n  ".join(lines)


def _addresses(system: System, passwords: Mapping[str, str]) -> list[str]:
    address = system.address
    users = sample.log_ins()
    width = max(map(len, passwords.values()))
    return [
        f"Portal          {address}",
        f"Administration  {address}admin/ (for those with a *)",
        f"REST interface  {address.rstrip('/')}{API_V1}docs/",
        *filter(None, [hint_for_commands(system.directory.path, default=settings.FOUND_DATA_DIR)]),
        "Log-ins         user / password",
        *(
            f"  {'*' if user.administers else ' '} {user.username:<9} {passwords[user.username]:<{width}}  {user.may}"
            for user in users
        ),
    ]
