"""Embedded PostgreSQL and Valkey: creation, command lines, readiness and addresses.

Both listen only on Unix sockets in a directory that only their owner can enter, so PostgreSQL may trust every client.
This module does not need Django: the tests start servers before its set-up.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from wms.stack.binaries import PostgresPrograms
from wms.stack.errors import StackError
from wms.stack.launch import NOBODY, ProcessUser, launched

#: PostgreSQL's fast shutdown; on SIGTERM it would wait until every client has disconnected.
POSTGRES_STOP_SIGNAL = signal.SIGINT
#: The port is only part of the socket's name.
_POSTGRES_PORT = 5432
_SUPERUSER = "postgres"
#: Seconds for servers of an earlier `up` to end before they are killed.
_STRAYS_WITHIN_S = 10.0
#: Seconds for processes to end after SIGKILL; one stuck in the kernel is given up.
_KILLED_WITHIN_S = 5.0
#: Seconds for backends to notice that their server was killed; one that is stopped or busy does not.
_BACKENDS_WITHIN_S = 1.0


class ServerNotMadeError(StackError):
    """The embedded database cannot be made or used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """An embedded PostgreSQL cluster.

    Args:
        programs: PostgreSQL's programs.
        data: the cluster's directory; made by :meth:`create`.
        sockets: an existing directory of mode 0700, its path short and plain (``directory.DataDirectory.sockets``).
        durable: False lets a power cut lose commits; for tests only.
        max_connections: largest number of clients.
    """

    programs: PostgresPrograms
    data: Path
    sockets: Path
    durable: bool = True
    max_connections: int = 200

    def create(self) -> None:
        """Make the cluster if missing; end servers left by an earlier run.

        The caller holds the lock of the data directory, so any server that still runs in it is left over.

        Raises:
            ServerNotMadeError: initdb failed, or the cluster is of another major version.
        """
        version = self.data / "PG_VERSION"
        if not version.exists():
            self._initdb()
        made_by = version.read_text(encoding="ascii").strip()
        if made_by != str(self.programs.version):
            raise ServerNotMadeError(
                f"The database in {self.data} was made by PostgreSQL {made_by}, and this is {self.programs.version}: "
                "name the older one in WMS_PG_BINDIR, or take another data directory."
            )
        _own(self.data, identity_for_postgres())
        _end_strays(self.data, within_s=_STRAYS_WITHIN_S)

    def end_strays(self) -> None:
        """End what a server that was killed has left, which a new one would refuse to share its memory with."""
        _end_strays(self.data, within_s=_BACKENDS_WITHIN_S)

    def command(self) -> list[str]:
        """Return the command line of the server, to be started from the main thread."""
        settings = {
            "listen_addresses": "",
            "port": str(_POSTGRES_PORT),
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": str(self.max_connections),
            # For the indexes of a million jobs, of which a match reads scattered pages, and for the writes of some
            # hundred thousand matches between two checkpoints: the defaults have room for a tenth of either.
            "shared_buffers": "512MB",
            "max_wal_size": "4GB",
            # A transaction left open would hold back the vacuum of the table of queued jobs.
            "idle_in_transaction_session_timeout": "60s",
            # The default also logs each ERROR sent to a client, and the client reports those itself.
            "log_min_messages": "fatal",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return launched(
            [str(self.programs.server), "-D", str(self.data), *options],
            identity=identity_for_postgres(),
            death_signal=POSTGRES_STOP_SIGNAL,
        )

    def is_ready(self) -> bool:
        """Whether the server accepts connections."""
        # NB: the socket exists earlier; connecting then makes the server log an error.
        with suppress(FileNotFoundError):
            if "ready" not in (self.data / "postmaster.pid").read_text(encoding="utf-8"):
                return False
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, name: str) -> None:
        """Make the database if missing; the server must be ready."""
        with self._connect() as connection:
            existing = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if existing is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def url(self, name: str) -> str:
        """Return the address of the database, for ``WMS_DATABASE_URL`` and psql."""
        return f"postgresql://{_SUPERUSER}@/{name}?host={self.sockets}&port={_POSTGRES_PORT}"

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host=str(self.sockets),
            port=_POSTGRES_PORT,
            user=_SUPERUSER,
            dbname="postgres",
            connect_timeout=5,
            autocommit=True,
        )

    def _initdb(self) -> None:
        """Make the cluster under another name and rename it, so that an interrupted initdb leaves no broken cluster."""
        unfinished = self.data.with_name(f"{self.data.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["-U", _SUPERUSER, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"]
        if not self.durable:
            options.append("--no-sync")
        unfinished.mkdir(mode=0o700)
        _own(unfinished, identity_for_postgres())
        command = launched(
            [str(self.programs.initdb), "-D", str(unfinished), *options], identity=identity_for_postgres()
        )
        done = subprocess.run(  # noqa: S603 - a program of PostgreSQL
            command, env=environment_of_server(), capture_output=True, text=True, check=False, start_new_session=True
        )
        if done.returncode != 0 and not _has_name(os.geteuid()):
            raise ServerNotMadeError(
                f"The database could not be made in {self.data}: the account {os.geteuid()} has no name, and this "
                "machine forbids user namespaces. Add it to /etc/passwd, or name a server in WMS_DATABASE_URL."
            )
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise ServerNotMadeError(f"The database could not be made in {self.data}: {' '.join(reason)}")
        unfinished.rename(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValkeyServer:
    """A Valkey server that keeps everything in memory.

    Losing the broker delays work but loses none (docs/architecture.md, Background work), so nothing is stored.

    Args:
        program: the server program.
        sockets: an existing directory of mode 0700, its path short and plain (``directory.DataDirectory.sockets``).
    """

    program: Path
    sockets: Path

    @property
    def _socket(self) -> Path:
        return self.sockets / "valkey.sock"

    def command(self) -> list[str]:
        """Return the command line of the server, to be started from the main thread."""
        listen = ["--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"]
        keep_nothing = ["--save", "", "--appendonly", "no", "--dir", str(self.sockets), "--loglevel", "warning"]
        return launched([str(self.program), *listen, *keep_nothing])

    def is_ready(self) -> bool:
        """Whether the server answers."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(2)
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def url(self) -> str:
        """Return the address, for ``WMS_REDIS_URL`` and Celery."""
        return f"redis+socket://{self._socket}"


def environment_of_server() -> dict[str, str]:
    """Return this process's environment without variables that change the behaviour of PostgreSQL's programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


_identity: dict[int, ProcessUser] = {}


def identity_for_postgres() -> ProcessUser:
    """Return the user as whom PostgreSQL runs: the current one if PostgreSQL allows it, else a substitute.

    The server refuses root; initdb refuses an account without a name, as in some containers.
    """
    user = os.geteuid()
    if user not in _identity:
        _identity[user] = _find_identity(user)
    return _identity[user]


def _find_identity(user: int) -> ProcessUser:
    if user != 0 and _has_name(user):
        return ProcessUser.SAME
    trial = launched([], identity=ProcessUser.MAPPED)
    if subprocess.run(trial, capture_output=True, check=False).returncode == 0:  # noqa: S603 - our own Python
        return ProcessUser.MAPPED
    return ProcessUser.NOBODY if user == 0 else ProcessUser.SAME


def _has_name(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _own(directory: Path, identity: ProcessUser) -> None:
    """Give the directory to the user as whom the server runs, if it belongs to another.

    The user changes if root's machine allowed user namespaces at an earlier start and forbids them now, or vice versa.
    """
    if os.geteuid() != 0:
        return
    owner = NOBODY if identity is ProcessUser.NOBODY else 0
    if directory.stat().st_uid == owner:
        return
    for path in (directory, *directory.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


def _end_strays(data: Path, *, within_s: float) -> None:
    """Wait for processes left in this cluster, kill them if need be, and remove the lock file of their server."""
    begun = time.monotonic()
    while (strays := _processes_in(data)) and time.monotonic() < begun + within_s + _KILLED_WITHIN_S:
        if time.monotonic() > begun + within_s:
            for process in strays:
                _kill(process, data=data)
        time.sleep(0.05)
    if not strays:  # else the next server must find out by the file that they still have its memory
        # Its number may belong to another process by now, so that PostgreSQL would refuse to start.
        (data / "postmaster.pid").unlink(missing_ok=True)


def _processes_in(data: Path) -> list[int]:
    """Return PostgreSQL's processes in this cluster."""
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [number for number in numbers if _is_in(data, number)]


def _is_in(data: Path, number: int) -> bool:
    """Return whether a process is PostgreSQL's, with the cluster as its working directory as each of them has it."""
    process = Path(f"/proc/{number}")
    try:
        # The directory itself and not its path, which is another one's in a container.
        return (process / "exe").readlink().name.startswith("postgres") and (process / "cwd").samefile(data)
    except OSError:
        return False


def _kill(number: int, *, data: Path) -> None:
    with suppress(OSError):
        process = os.pidfd_open(number)
        try:
            if _is_in(data, number):  # and no other process that got its number meanwhile
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
