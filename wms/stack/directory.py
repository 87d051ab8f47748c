"""The data directory of one system: its lock, its secret key, its sockets, and the addresses of its servers."""

import fcntl
import os
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wms.kernel.private_files import FILE_MODE, close_to_others, is_open_to_others, write_private
from wms.kernel.trusted_paths import UntrustedPathError, require_trusted
from wms.stack.errors import StackError
from wms.stack.launch import NOBODY
from wms.wire.private_directories import make_private

_ENVIRONMENT = "environment"
#: Seconds to wait for the guard of a killed system, which takes at most 8 s.
_CLEANED_WITHIN_S = 15.0
#: The path of a socket has at most 107 bytes, and is part of addresses, in which other characters need escapes.
_PLAIN_AND_SHORT = re.compile(r"[A-Za-z0-9/._-]{1,80}")
#: A directory or file of a socket in the address of a database or broker.
_SOCKET = re.compile(r"(?:[?&]host=|socket://)(/[A-Za-z0-9/._-]+)")
#: Parts whose files are checked one by one; those of the others belong to PostgreSQL or pilots, or are very many.
_READ = ("beat", "run")
#: Further owners of parts: nobody of the database, as PostgreSQL does not run as root.
_OWNERS = {"postgres": frozenset({NOBODY})}


class DataDirectoryUnusableError(StackError):
    """The data directory cannot be made or written to, or others could write to it."""


class DataDirectoryInUseError(StackError):
    """Another system runs in the data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """A data directory locked by this process; made by :func:`claimed`.

    Args:
        path: absolute.
        cleaning: descriptor of the lock that the guard holds until it has cleaned up after a killed system.
    """

    path: Path
    cleaning: int

    @property
    def environment_file(self) -> Path:
        """The file from which other commands of this machine read the servers' addresses; it holds the secret key."""
        return self.path / _ENVIRONMENT

    def part(self, name: str) -> Path:
        """Return a directory inside it, made if missing, that only its owner can enter."""
        directory = self.path / name
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        return directory

    def sockets(self) -> Path:
        """Return a directory for sockets: inside, or a temporary one (to be removed) if the path is too long."""
        if _PLAIN_AND_SHORT.fullmatch(str(self.path / "run")):
            return self.part("run")
        return Path(tempfile.mkdtemp(prefix="wms-", dir="/tmp"))

    def emptied(self, name: str) -> Path:
        """Return a directory of files inside it, as ``part``, without the files of an earlier system."""
        directory = self.part(name)
        for file in directory.iterdir():
            file.unlink()
        return directory

    def secret_key(self) -> str:
        """Return the secret key, generated once, so that sessions and tokens survive a restart."""
        return self._secret("secret_key")

    def metrics_token(self) -> str:
        """Return the token of /metrics, generated once, as it is also in the configuration of Prometheus."""
        return self._secret("metrics_token")

    def _secret(self, name: str) -> str:
        file = self.path / name
        if not file.exists():
            write_private(file, secrets.token_urlsafe(50))
        return file.read_text(encoding="ascii").strip()

    def close_to_others(self) -> list[Path]:
        """Close to other accounts the files that an earlier version, or another umask, left open; return their paths.

        Files of PostgreSQL and pilots keep their own modes, behind that of their directory.
        """
        closed = []
        for path in sorted(self.path.iterdir()):
            if path.is_symlink():
                continue
            if path.is_dir():
                was_open = close_to_others(path, deep=path.name not in {"pilots", "postgres"})
            elif was_open := path.is_file() and is_open_to_others(path):
                path.chmod(FILE_MODE)
            closed += [path] * was_open
        # Last: after an interrupted start the next one closes the rest.
        return [*closed, *[self.path] * close_to_others(self.path, deep=False)]

    def write_environment(self, variables: Mapping[str, str]) -> None:
        """Write the servers' addresses for other commands of this machine, in shell syntax."""
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in sorted(variables.items())]
        write_private(self.environment_file, "".join(lines))


@contextmanager
def claimed(path: Path) -> Iterator[DataDirectory]:
    """Make the directory if missing, and lock it.

    The kernel releases the lock with the process, so none is left after a kill.

    Raises:
        DataDirectoryUnusableError: it cannot be made or written to, or another account could write to it.
        DataDirectoryInUseError: another process holds the lock.
    """
    path = path.absolute()
    _require_own(path)
    try:
        make_private(path)
        running, cleaning = (os.open(path / name, os.O_RDWR | os.O_CREAT, 0o600) for name in ("lock", "cleaning.lock"))
    except OSError as error:
        raise DataDirectoryUnusableError(
            f"The data directory {path} cannot be used ({error.strerror}): name another one with --data-dir."
        ) from error
    try:
        if not _locked(running, within_s=0):
            holder = os.pread(running, 20, 0).decode(errors="replace").strip()
            raise DataDirectoryInUseError(
                f"The data directory {path} is in use by process {holder}: stop that one or name another directory "
                "with --data-dir."
            )
        os.ftruncate(running, 0)
        os.pwrite(running, f"{os.getpid()}\n".encode(), 0)
        if not _locked(cleaning, within_s=_CLEANED_WITHIN_S):
            raise DataDirectoryInUseError(
                f"What a killed system left in {path} has not ended yet: try again, or name another directory with "
                "--data-dir."
            )
        yield DataDirectory(path=path, cleaning=cleaning)
    finally:
        os.close(running)
        os.close(cleaning)


def _require_own(path: Path) -> None:
    """Refuse a data directory, or a file in it, that another account could have written."""
    try:
        require_trusted(path)
        for entry in _content(path):
            require_trusted(entry, owners=_OWNERS.get(entry.name, frozenset()))
            for file in _content(entry) if entry.name in _READ else ():
                require_trusted(file)
    except UntrustedPathError as error:
        raise DataDirectoryUnusableError(f"{error} The data directory is the option --data-dir.") from error


def _content(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:  # it is missing, or not for this account, which finds nothing in it then
        return []


def _locked(descriptor: int, *, within_s: float) -> bool:
    give_up = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.05)
        else:
            return True


def found_directory(environ: Mapping[str, str], *, clone: Path | None) -> Path | None:
    """Return the data directory whose running system other commands use; None: they use none.

    Never one of the current directory, which may be somebody else's.

    Args:
        environ: the variables of the process.
        clone: the directory of the repository; None: the server is installed.
    """
    if named := environ.get("WMS_DATA_DIR"):
        return Path(named)
    return None if clone is None else clone / "var"


def hint_for_commands(path: Path, *, default: Path | None) -> str:
    """Return the variable to set so that other commands find the system of this data directory; empty: none.

    Args:
        path: the data directory.
        default: that whose system they find, see :func:`found_directory`.
    """
    if default is not None and path == default.absolute():
        return ""
    return f"For commands in other terminals: export WMS_DATA_DIR={shlex.quote(str(path))}"


def environment_of_running(path: Path | None) -> dict[str, str]:
    """Return the variables with the servers of the running system of this data directory; {} if none runs.

    They let `manage.py token alice` run in a second terminal without further variables.

    Raises:
        UntrustedPathError: another account could have written them, or could answer at the sockets that they name.
    """
    if path is None:
        return {}
    file = path / _ENVIRONMENT
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return {}
    require_trusted(file)
    variables = dict(word.split("=", 1) for word in shlex.split(text))
    for name in ("WMS_DATABASE_URL", "WMS_REDIS_URL"):
        for socket in _SOCKET.findall(variables.get(name, "")):
            require_trusted(Path(socket))
    return variables
