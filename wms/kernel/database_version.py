"""The version of the program that migrated the database: an older program refuses to work with it (ADR 89).

`migrate` writes it as the comment of Django's table of applied migrations, whose rows say the rest.
"""

import logging
import re
from collections import defaultdict
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from threading import Lock
from time import monotonic
from typing import Final

from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.utils import Error as DatabaseError

from wms.wire.version import __version__

logger = logging.getLogger(__name__)

#: Seconds after which a running process looks again.
_LOOK_EVERY_S: Final = 10.0
_COMMENT: Final = re.compile(r"wms-server (\d\S*)")
_TABLE: Final = "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('django_migrations')"


def refusal_of_database() -> str | None:
    """Return a sentence with both versions if a newer program has migrated the database; None if this one may use it.

    The database is newer if its recorded version is, or if an app has a migration that this program does not know and
    that was applied after the last one that it knows. (Those applied before were replaced by squashing.)
    """
    version, unknown = recorded_version(), _unknown_migrations()
    by_newer = version is not None and is_newer(version)
    if not unknown and not by_newer:
        return None
    by = f"version {version}" if by_newer else f"a later build of version {version or '(not recorded)'}"
    more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
    migrations = f" with {unknown[0]}{more}, unknown to this program" if unknown else ""
    return (
        f"This program, version {__version__}, is older than the database, which {by} migrated{migrations}: "
        "start that one, or restore the backup from before the upgrade."
    )


def is_newer(version: str) -> bool:
    """Return whether a version of the program is newer than this one."""
    return _numbers(version) > _numbers(__version__)


def recorded_version() -> str | None:
    """Return the version of the program that migrated the database; None: it is not recorded."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLE)
        row = cursor.fetchone()
    comment = _COMMENT.match(row[0] or "") if row else None
    return comment[1] if comment else None


def record_version(*, applied: bool) -> None:
    """Record that this program has applied migrations, or only unapplied some: then its version is not needed."""
    comment = f"'wms-server {__version__}'" if applied else "NULL"
    with connection.cursor() as cursor:
        cursor.execute(f"COMMENT ON TABLE django_migrations IS {comment}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _unknown_migrations() -> list[str]:
    applied: defaultdict[str, list[str]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        if cursor.fetchone()[0]:
            cursor.execute("SELECT app, name FROM django_migrations ORDER BY id DESC")
            for label, name in cursor.fetchall():
                applied[label].append(name)
    found: list[str] = []
    for label in applied.keys() & {app.label for app in apps.get_app_configs()}:
        known = _migrations_of(label)
        last_known = next((at for at, name in enumerate(applied[label]) if name in known), 0)
        found += [f"{label}.{name}" for name in applied[label][:last_known]]
    return sorted(found)


@cache
def _migrations_of(label: str) -> frozenset[str]:
    """Return the names of an app's migrations, by their files: importing them would take each process 0.2 s."""
    module, _ = MigrationLoader.migrations_module(label)
    if module is None:
        return frozenset()
    try:
        return frozenset(name for _, name, _ in iter_modules(import_module(module).__path__))
    except ModuleNotFoundError:
        return frozenset()


class _Watch:
    """What this process has last found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._look_at = float("inf")
        self._refusal: str | None = None

    def start(self) -> str | None:
        """Look now and from now on; return the refusal."""
        self._look_at = 0.0
        return self.refusal()

    def refusal(self) -> str | None:
        """Return the refusal of at most ``_LOOK_EVERY_S`` ago; None before ``start``."""
        if monotonic() >= self._look_at and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._refusal

    def _look(self) -> None:
        self._look_at = monotonic() + _LOOK_EVERY_S
        try:
            refusal = refusal_of_database()
        except DatabaseError:
            return  # It is away, which the request will find too.
        if refusal and refusal != self._refusal:
            logger.error("database.version: %s", refusal)
        self._refusal = refusal


_watch = _Watch()
#: Called when a process of the web server or of Celery starts.
start_watch = _watch.start
#: Called with each request and task; free but once in ten seconds.
refusal_of_running = _watch.refusal
