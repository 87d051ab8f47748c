"""The backend of a plain host behind SSH: each pilot is a process there and fetches the agent from the server."""

from pilots.backends import options as read
from pilots.backends.commands import COMMON_OPTIONS, commands_of
from pilots.backends.interface import BackendError, CEDescription, PilotOrder
from pilots.backends.plain_host import SECRET_FILE, WORK_DIRECTORY, PlainHostBackend
from pilots.backends.script import pilot_script

_OPTIONS = COMMON_OPTIONS | {
    "max_processes",
    "max_idle_s",
    "node_processors",
    "python",
    "directory",
    *read.PROXY_OPTIONS,
}
_PYTHON = "python3"
_DIRECTORY = "wms-pilots"
_MAX_IDLE_S = 300


class SSHBackend(PlainHostBackend):
    """One plain host behind an sshd.

    Options: ``host``, ``port``, ``user``, ``identity_file``, ``known_hosts`` as in ``ssh_connection.py``; ``directory``
    there, for the directories of pilots; ``max_processes``, the most pilots of all queues of the CE together, by
    default one per processor; ``max_idle_s``, seconds without a job after which a pilot ends; ``node_processors``,
    cores that a pilot may offer, instead of those that it detects; ``python``, an interpreter there; ``environment``,
    the pilots' variables; ``programs``, a directory for their path; ``proxy`` and ``no_proxy``, how pilots reach the
    server.
    """

    def __init__(self, description: CEDescription) -> None:
        """Take the description; see ``Backend``."""
        options = description.options
        read.refuse_unknown(options, known=_OPTIONS, kind="ssh")
        if "host" not in options:
            raise BackendError("A CE of type ssh requires the option host; pilots of this machine are of type local.")
        commands, _ = commands_of(options, directory=description.directory)
        self._own_python = read.text(options, "python")
        self._node = read.words_of_node(read.node_processors(options))
        self._proxy = read.proxy_variables(options)
        self._max_idle_s = read.number(options, "max_idle_s", default=_MAX_IDLE_S)
        self._server_url = description.server_url
        super().__init__(
            commands,
            # Two CEs may share a host; each counts its own pilots.
            directory=f"{read.text(options, 'directory', default=_DIRECTORY)}/{description.site}/{description.ce}",
            python=self._own_python or _PYTHON,
            max_processes=read.number(options, "max_processes", default=1) if "max_processes" in options else None,
        )

    def script(self, order: PilotOrder) -> str:
        """Return the script that installs and starts a pilot."""
        life = ("--max-idle-s", str(self._max_idle_s), "--work-dir", WORK_DIRECTORY, *self._node)
        return pilot_script(
            order,
            server_url=self._server_url,
            secret_file=SECRET_FILE,
            more=life,
            python=self._own_python,
            proxy=self._proxy,
        )
