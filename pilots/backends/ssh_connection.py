"""Connections by OpenSSH: its command line, and the meaning of its errors."""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pilots.backends import options as read
from pilots.backends.interface import BackendError
from wms.kernel.trusted_paths import UntrustedPathError, require_trusted
from wms.wire.private_directories import make_private

#: Options that need the option host.
_NEED_HOST = ("port", "user", "identity_file", "known_hosts")
#: A name, or an address, of IPv6 perhaps with its interface; no option of ssh.
_HOST = re.compile(r"(?:[A-Za-z0-9]|::)[A-Za-z0-9.:_%-]*")
_IN_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.%_-]+)\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: Characters that are written outside of the quotes, after a backslash each.
_SPECIAL_IN_QUOTES = re.compile(r"(['!\\])")
_PORT = 22
_LAST_PORT = 65535
#: Longest path of a socket: it has 107 bytes, of which OpenSSH uses 17 while it creates one.
_LONGEST_SOCKET = 90
#: Settings against prompts, and against anything of this machine reaching the other.
_ALWAYS = {
    "BatchMode": "yes", "ConnectTimeout": "10", "StrictHostKeyChecking": "yes", "UpdateHostKeys": "no",
    "ForwardAgent": "no", "ForwardX11": "no", "ClearAllForwardings": "yes", "PermitLocalCommand": "no",
    "RemoteCommand": "none", "RequestTTY": "no", "EscapeChar": "none", "LogLevel": "ERROR",
    # A vanished host is detected within the timeout of a command; else the connection would block later commands.
    "ServerAliveInterval": "5", "ServerAliveCountMax": "3",
}  # fmt: skip
#: Seconds that an unused connection stays open: from one round at the CE to the next.
_PERSIST_S = 90
_SOCKET = "ssh-"


class SSHConnection:
    """A host and how to reach it; commands open the connection, and those of a minute share it.

    The user's own configuration of OpenSSH applies, for instance a jump host; the settings here take precedence.

    Args:
        host: name or address.
        user: on the host; empty: as on this machine.
        port: of its sshd.
        identity_file: private key; empty: by the user's configuration.
        known_hosts: path of a file of host keys, or its lines; empty: by the user's configuration.
        directory: for this CE alone; created when needed.
    """

    def __init__(
        self, *, host: str, user: str, port: int, identity_file: str, known_hosts: str, directory: Path
    ) -> None:
        self.host = host
        self._user = user
        self._port = port
        self._identity_file = identity_file
        self._known_hosts = known_hosts
        self._directory = directory

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the command line that runs *argv* on the host.

        Raises:
            BackendError: the directory of this CE cannot be created.
        """
        try:
            _make_private(self._directory)
            settings = {**_ALWAYS, **self._host_keys(), **self._sharing()}
        except OSError as error:
            raise BackendError(f"{self._directory} cannot be used for the connection: {error.strerror}.") from error
        if self._identity_file:
            settings |= {"IdentityFile": _quoted(self._identity_file), "IdentitiesOnly": "yes"}
        if self._port:
            settings["Port"] = str(self._port)
        if self._user:
            settings["User"] = self._user
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", *options, "--", self.host, " ".join(map(_word, argv))]

    def forget(self) -> None:
        """Make the next command open a new connection, which later ones share."""
        if (socket := self._socket()) is not None:
            with suppress(OSError):
                socket.unlink()

    def trouble(self, stderr: str) -> str:
        """Return a sentence for an error of ssh."""
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in stderr:
            return (
                f"The host key of {self.host} differs from the known one: ask its operators to confirm it, "
                "and only then change the option known_hosts."
            )
        if "Host key verification failed" in stderr:
            port = f"-p {self._port} " if self._port else ""
            return (
                f"The host key of {self.host} is not known: give the lines of `ssh-keyscan {port}{self.host}` in the "
                "option known_hosts, when its operators have confirmed them."
            )
        if "Permission denied" in stderr:
            return f"{self.host} denies access: check the options user and identity_file, and the key there."
        # The last line, because lines of the host may come before it.
        reason = (stderr.strip().splitlines() or ["ssh gave no reason"])[-1].strip()
        return f"{self.host} cannot be reached, or the connection broke: {reason}"

    def _host_keys(self) -> Mapping[str, str]:
        if not self._known_hosts:
            return {}
        path = self._known_hosts
        if _are_lines(path):
            file = self._directory / f"known_hosts-{_digest(path)}"
            if not file.exists():
                with tempfile.NamedTemporaryFile(
                    "w", dir=self._directory, delete=False, encoding="utf-8"
                ) as unfinished:
                    unfinished.write(f"{path.rstrip()}\n")
                Path(unfinished.name).rename(file)
            path = str(file)
        return {"UserKnownHostsFile": _quoted(path), "GlobalKnownHostsFile": "/dev/null"}

    def _sharing(self) -> Mapping[str, str]:
        """Return the settings of a shared connection; without a path for its socket, each command opens its own."""
        socket = self._socket()
        if socket is None:
            return {"ControlMaster": "no", "ControlPath": "none"}
        _make_private(socket.parent)
        return {"ControlMaster": "auto", "ControlPath": _quoted(str(socket)), "ControlPersist": str(_PERSIST_S)}

    def _socket(self) -> Path | None:
        identity = (self.host, self._user, str(self._port), self._identity_file, self._known_hosts)
        name = f"{_SOCKET}{_digest(*identity)}"
        for place in _places_of_sockets(self._directory):
            if len(os.fsencode(place / name)) <= _LONGEST_SOCKET and "%" not in str(place):
                return place / name
        return None


def commands_that_stop_sharing(directory: Path) -> Iterator[Sequence[str]]:
    """Yield the commands that close shared connections after their last command.

    Args:
        directory: that of a CE.
    """
    for socket in (path for place in _places_of_sockets(directory) for path in place.glob(f"{_SOCKET}*")):
        # ssh requires the name of a host here and does not use it.
        yield ["ssh", "-F", "none", "-O", "stop", "-o", f"ControlPath={_quoted(str(socket))}", "--", "host"]


def connection_of(options: Mapping[str, object], *, directory: Path) -> SSHConnection | None:
    """Return the connection that the options of a CE describe; None: this machine.

    Raises:
        BackendError: an option is wrong.
    """
    host = _IN_BRACKETS.sub(r"\1", read.text(options, "host"))
    if not host:
        for name in (name for name in _NEED_HOST if name in options):
            raise BackendError(f"The option {name} is for a host that is reached by SSH: give the option host too.")
        return None
    if not _HOST.fullmatch(host):
        raise BackendError(f"The option host must be a name or an address; it is {host!r}.")
    user = read.text(options, "user")
    if user and not _USER.fullmatch(user):
        raise BackendError(f"The option user must be the name of a user; it is {user!r}.")
    port = read.number(options, "port", default=_PORT) if "port" in options else 0
    if port > _LAST_PORT:
        raise BackendError(f"The option port must be at most {_LAST_PORT}; it is {port}.")
    return SSHConnection(
        host=host,
        user=user,
        port=port,
        identity_file=_path_of(options, "identity_file"),
        known_hosts=_known_hosts_of(options),
        directory=directory,
    )


def _places_of_sockets(directory: Path) -> tuple[Path, Path]:
    """Return the directory of a CE, and the one for sockets if its path is too long."""
    return directory, Path(tempfile.gettempdir(), f"wms-ssh-{os.getuid()}-{_digest(str(directory))}")


def _known_hosts_of(options: Mapping[str, object]) -> str:
    known_hosts = options.get("known_hosts", "")
    if isinstance(known_hosts, str) and _are_lines(known_hosts):
        return known_hosts
    return _path_of(options, "known_hosts")


def _are_lines(known_hosts: str) -> bool:
    """Return whether the text is lines (host, type, key) and not a path."""
    is_path = known_hosts.startswith(("/", "~"))
    return not is_path and any(len(line.split()) >= 3 for line in known_hosts.splitlines())


def _path_of(options: Mapping[str, object], name: str) -> str:
    text = read.text(options, name)
    if not text:
        return ""
    path = Path(text).expanduser()
    if not path.is_absolute() or not path.is_file():
        raise BackendError(f"The option {name} must be the path of a file, from / or ~ on; it is {text}.")
    try:
        require_trusted(path)
    except UntrustedPathError as error:
        raise BackendError(f"The option {name}: {error}") from error
    return str(path)


def _word(argument: str) -> str:
    """Return the argument quoted for any login shell: csh expands ``!`` in quotes, fish reads backslashes there."""
    return "'{}'".format(_SPECIAL_IN_QUOTES.sub(r"'\\\1'", argument))


def _quoted(path: str) -> str:
    """Return the path quoted for a setting of OpenSSH, where blanks separate and ``%`` begins a token."""
    return f'"{path.replace("%", "%%")}"'


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _make_private(directory: Path) -> None:
    """Create the directory, for its owner alone.

    Raises:
        OSError: it failed.
        BackendError: it belongs to another user.
    """
    make_private(directory)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise BackendError(f"{directory} belongs to another account or is not a directory; remove it.")
    directory.chmod(0o700)
