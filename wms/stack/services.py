"""The parts of the system in the order in which they start, and the one call that runs them all."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wms.stack.binaries import find_postgres, find_valkey
from wms.stack.directory import DataDirectory, DataDirectoryUnusableError, claimed
from wms.stack.errors import StackError
from wms.stack.guard import Guard
from wms.stack.launch import launched
from wms.stack.listening import Listener
from wms.stack.output import Output
from wms.stack.parts import CallPart, CommandPart, ServicePart, Stage
from wms.stack.servers import POSTGRES_STOP_SIGNAL, PostgresServer, ValkeyServer, environment_of_server
from wms.stack.supervisor import Supervisor

#: Requests that one web worker answers at once; each thread keeps a connection to the database.
_WEB_THREADS = 8
_DATABASE = "wms"
#: Rounds at computing elements at once; most of their time they wait for an answer.
_SITES_AT_ONCE = 16
#: Pilots have 8 s to leave.
_LEAVING_S = 15.0
#: One machine looks for what waits more often than a grid would.
_CYCLE_S = "2"


class AddressNeededError(StackError):
    """Under which address the system is reached does not follow from where it listens."""


class ConfigurationNotReadableError(StackError):
    """The configuration file that was named is not there or may not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """How the system is to be run.

    Args:
        project: the directory of ``manage.py``.
        data: the data directory; made when it is not there.
        listener: where the web server listens.
        web_workers: processes of the web server.
        configuration: a file to apply before the web server starts.
        defaults: variables of every part but the servers; what this process's own environment says comes first.
        stay: whether to run until asked to stop; otherwise until all stages have been started.
    """

    project: Path
    data: Path
    listener: Listener
    web_workers: int
    configuration: Path | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    stay: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What every part shares: the options, the directory, and the variables of each child."""

    options: StackOptions
    directory: DataDirectory
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """The web server's address for who is at this machine."""
        return self.options.listener.url or self.environment["WMS_SERVER_URL"]

    def python(self, *arguments: str) -> list[str]:
        """Return the command line of a Python program that ends with the supervisor."""
        return launched([sys.executable, *arguments])

    def manage(self, *arguments: str) -> list[str]:
        """Return the command line of a management command."""
        return self.python(str(self.options.project / "manage.py"), *arguments)


#: Stages that come after the web server's, such as the demonstration's.
MoreStages = Callable[[System], Sequence[Stage]]


def _no_more(_system: System) -> Sequence[Stage]:
    return ()


def run(options: StackOptions, *, greeting: Callable[[System], str], more: MoreStages = _no_more) -> None:
    """Run the whole system in the foreground until it is asked to stop, or to its last stage.

    Args:
        options: how.
        greeting: returns what to say once, when everything is ready.
        more: further stages.

    Raises:
        StackError: it could not be started; nothing of it is left running.
    """
    # Until the supervisor listens, SIGTERM is like Ctrl-C: what was begun is tidied up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with claimed(options.data) as directory:
        _close_to_others(directory)
        options.listener.check()
        _check_readable(options.configuration)
        sockets = directory.sockets()
        guard = Guard(paths=[sockets, directory.environment_file], keep=[directory.cleaning])
        try:
            system, embedded = _embed(options, directory, sockets, guard)
            directory.write_environment(_for_other_commands(system))
            stages = [*embedded, *_own_stages(system), *more(system)]
            asyncio.run(_supervise(stages, greeting=partial(greeting, system), stay=options.stay))
        finally:
            guard.finish()


def _close_to_others(directory: DataDirectory) -> None:
    """Close what other accounts may read in the data directory, and say so, once: then it is closed.

    Raises:
        DataDirectoryUnusableError: something in it is another account's.
    """
    try:
        closed = directory.close_to_others()
    except PermissionError as error:
        raise DataDirectoryUnusableError(
            f"{error.filename} can be read by other accounts, and this account may not close it: give it to this "
            "account by chown, or remove it."
        ) from error
    if closed:
        names = ", ".join(str(path) for path in closed)
        sys.stderr.write(f"Other accounts could read {names}; that is closed to them now.\n")


async def _supervise(stages: Sequence[Stage], *, greeting: Callable[[], str], stay: bool) -> None:
    output = Output()
    await Supervisor(stages=stages, output=output, announce=lambda: output.text(greeting()), stay=stay).run()


def _embed(options: StackOptions, directory: DataDirectory, sockets: Path, guard: Guard) -> tuple[System, list[Stage]]:
    """Return the system's surroundings, and the stages of those servers that no variable names."""
    path = os.pathsep.join(filter(None, [str(options.project), os.environ.get("PYTHONPATH")]))
    environment = {**options.defaults, **os.environ, **guard.environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    # Where Python may not keep its bytecode, each of a dozen processes would compile all that it imports.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["WMS_DATA_DIR"] = str(directory.path)
    environment.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
    environment.setdefault("WMS_SECRET_KEY", directory.secret_key())
    if options.listener.url:
        environment.setdefault("WMS_SERVER_URL", options.listener.url)
    elif "WMS_SERVER_URL" not in environment:
        raise AddressNeededError("Name the address of the proxy before the socket in WMS_SERVER_URL.")
    environment.setdefault("WMS_DIRECTOR_CYCLE_S", _CYCLE_S)
    directory.part("static")  # WhiteNoise warns of one that is missing
    servers: list[ServicePart] = []
    before: list[Stage] = []
    after: list[Stage] = []
    server_environment = environment_of_server() | guard.environment
    if "WMS_DATABASE_URL" not in os.environ:
        postgres = PostgresServer(programs=find_postgres(), data=directory.path / "postgres", sockets=sockets)
        environment |= {"WMS_DATABASE_URL": postgres.url(_DATABASE), "WMS_EMBEDDED": "1"}
        before.append([CallPart(function=postgres.create)])
        servers.append(
            ServicePart(
                name="postgres",
                command=postgres.command(),
                environment=server_environment,
                is_ready=postgres.is_ready,
                stop_signal=POSTGRES_STOP_SIGNAL,
                stop_within_s=30,
            )
        )
        after.append([CallPart(function=lambda: postgres.create_database(_DATABASE))])
    if "WMS_REDIS_URL" not in os.environ:
        valkey = ValkeyServer(program=find_valkey(), sockets=sockets)
        environment["WMS_REDIS_URL"] = valkey.url()
        servers.append(
            ServicePart(
                name="valkey",
                command=valkey.command(),
                environment=server_environment,
                quiet=True,  # it warns of settings that concern a server which writes to disk
                is_ready=valkey.is_ready,
            )
        )
    system = System(options=options, directory=directory, environment=environment)
    return system, [*before, servers, *after]


def _own_stages(system: System) -> list[Stage]:
    stages: list[Stage] = [[_prepare(system)], [_web(system), *_workers(system), _beat(system)]]
    # After the web server and so stopped before it: pilots of this machine hand their jobs back.
    stages.append([_pilots(system)])
    return stages


def _prepare(system: System) -> CommandPart:
    """Return what brings the database up to date, with its tables and what the configuration file says."""
    file = system.options.configuration
    if file is None:
        migrate = system.manage("migrate", "--no-input", "--verbosity", "0")
        return CommandPart(name="migrate", command=migrate, environment=system.environment)
    return CommandPart(
        name="configure",
        # One process for both: it is the longest part of a start.
        command=system.manage("configure", str(file.absolute()), "--migrate"),
        environment=system.environment,
        failure=f"The database could not be made to say what {file} says, for the reason above.",
    )


def _web(system: System) -> ServicePart:
    how_many = ["--workers", str(system.options.web_workers), "--threads", str(_WEB_THREADS)]
    return ServicePart(
        name="web",
        command=system.python("-m", "wms.web", *system.options.listener.server_options, *how_many),
        environment=system.environment,
        is_ready=system.options.listener.answers,
    )


def _workers(system: System) -> list[ServicePart]:
    """Return one Celery worker for each queue, so that dead sites never delay expiry (DESIGN §4.7)."""
    return [
        ServicePart(
            name=queue,
            # Threads: one process each, and nobody to leave behind.
            command=_celery(
                system,
                "worker",
                *("--queues", queue, "--hostname", f"{queue}@%h", "--pool", "threads", "--concurrency", str(threads)),
                *("--prefetch-multiplier", "1", "--without-gossip", "--without-mingle"),
            ),
            environment=system.environment,
            stop_within_s=5,
        )
        for queue, threads in (("control", 2), ("sites", _SITES_AT_ONCE))
    ]


def _beat(system: System) -> ServicePart:
    schedule = str(system.directory.part("beat") / "schedule")
    return ServicePart(
        name="beat",
        command=_celery(system, "beat", "--schedule", schedule, "--pidfile", ""),
        environment=system.environment,
        stop_within_s=5,
    )


def _pilots(system: System) -> ServicePart:
    return ServicePart(
        name="pilots",
        command=system.python("-m", "wms.stack.pilot_drain", str(system.directory.path / "pilots")),
        environment=system.environment,
        stop_within_s=_LEAVING_S,
    )


def _celery(system: System, what: str, *arguments: str) -> list[str]:
    # Root is as good as anybody here: the messages are JSON, which can do nothing to whoever reads them.
    silence = ["-W", "ignore:You're running the worker with superuser privileges"]
    # So is an account without a name.
    silence += ["-W", "ignore:An entry for the specified gid or egid was not found"]
    program = ["-m", "celery", "--quiet", "-A", "wms.celery", what, "--loglevel", "WARNING"]
    return system.python(*silence, *program, *arguments)


def _for_other_commands(system: System) -> dict[str, str]:
    names = ("WMS_DATABASE_URL", "WMS_REDIS_URL", "WMS_SECRET_KEY", "WMS_EMBEDDED", "WMS_DATA_DIR")
    return {name: system.environment[name] for name in names if name in system.environment}


def _check_readable(configuration: Path | None) -> None:
    if configuration is not None and not (configuration.is_file() and os.access(configuration, os.R_OK)):
        raise ConfigurationNotReadableError(f"The configuration file {configuration} cannot be read.")
