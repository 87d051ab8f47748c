"""The parts of the system in the order of their start, and the function that runs them all."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from environ import Env

from wms.kernel.counters import DIRECTORY as COUNTERS
from wms.kernel.pulse import VARIABLE as PULSE_SOCKET
from wms.operations.parts import VARIABLE as PARTS_SOCKET
from wms.stack.alarms import ring
from wms.stack.binaries import find_postgres, find_valkey
from wms.stack.directory import DataDirectory, DataDirectoryUnusableError, claimed
from wms.stack.errors import StackError
from wms.stack.guard import Guard
from wms.stack.launch import launched
from wms.stack.listening import Listener
from wms.stack.output import Output
from wms.stack.parts import CallPart, CommandPart, ServicePart, Stage
from wms.stack.pulses import Pulses
from wms.stack.servers import POSTGRES_STOP_SIGNAL, PostgresServer, ValkeyServer, environment_of_server
from wms.stack.supervisor import Supervisor

#: Concurrent requests of one web worker; each thread keeps a connection to the database.
_WEB_THREADS = 8
_DATABASE = "wms"
#: Concurrent cycles of computing elements; most of their time they wait for answers.
_SITES_AT_ONCE = 16
#: Seconds for pilots to leave, which takes them at most 8 s.
_LEAVING_S = 15.0
#: Seconds of a directors' cycle with an embedded database; shorter than on a grid.
_CYCLE_S = "2"


class AddressNeededError(StackError):
    """The address of the system is not configured and does not follow from its listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """Options of the system.

    Args:
        project: the directory of the package ``wms``.
        data: the data directory; made if missing.
        listener: of the web server.
        web_workers: processes of the web server.
        configuration: a file to apply before the web server starts.
        configuration_variables: values of ``${NAME}`` in this file; no part has them but the command that applies it.
        defaults: variables of every part except the servers; variables of this process take precedence.
        stay: whether to run until stopped; otherwise until all stages have been started.
    """

    project: Path
    data: Path
    listener: Listener
    web_workers: int
    configuration: Path | None = None
    configuration_variables: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    stay: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The shared data of all parts: the options, the directory, and the variables of each child."""

    options: StackOptions
    directory: DataDirectory
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """The web server's address for users, with a slash at its end."""
        return self.environment["WMS_SERVER_URL"].rstrip("/") + "/"

    def python(self, *arguments: str) -> list[str]:
        """Return the command line of a Python program that ends with the supervisor."""
        # Not from the current directory, whose modules could replace those of the server.
        return launched([sys.executable, "-P", *arguments])

    def named(self, part: str) -> Mapping[str, str]:
        """Return the variables of a part, whose connections the database shows by its name (libpq's PGAPPNAME)."""
        return {**self.environment, "PGAPPNAME": f"wms-{part}"}

    def manage(self, *arguments: str) -> list[str]:
        """Return the command line of a management command."""
        return self.python("-m", "wms", *arguments)


#: Function that returns stages after the web server's, such as the demonstration's.
MoreStages = Callable[[System], Sequence[Stage]]


def _no_more(_system: System) -> Sequence[Stage]:
    return ()


def run(options: StackOptions, *, greeting: Callable[[System], str], more: MoreStages = _no_more) -> None:
    """Run the whole system in the foreground until it is stopped, or to its last stage.

    Args:
        options: of the system.
        greeting: returns the text to print once everything is ready.
        more: further stages.

    Raises:
        StackError: it could not be started; nothing of it is left running.
    """

    def stages(system: System) -> Sequence[Stage]:
        options.listener.check()
        return [*_own_stages(system), *more(system)]

    _run(options, stages=stages, greeting=greeting)


def run_beside_servers(options: StackOptions, *command: str) -> None:
    """Run a management command while only the embedded servers of a system run.

    Raises:
        StackError: they could not be started, or the command failed; nothing is left running.
    """

    def stages(system: System) -> Sequence[Stage]:
        return [[CommandPart(name=command[0], command=system.manage(*command), environment=system.environment)]]

    _run(options, stages=stages, greeting=lambda system: f"The data are in {system.directory.path}.")


def _run(
    options: StackOptions, *, stages: Callable[[System], Sequence[Stage]], greeting: Callable[[System], str]
) -> None:
    # Until the supervisor handles signals, SIGTERM acts like Ctrl-C, so that what was begun is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with claimed(options.data) as directory:
        _close_to_others(directory)
        sockets = directory.sockets()
        guard = Guard(paths=[sockets, directory.environment_file], keep=[directory.cleaning])
        try:
            system, embedded = _embed(options, directory, sockets, guard)
            directory.write_environment(_for_other_commands(system))
            everything = [*embedded, *stages(system)]
            asyncio.run(_supervise(system, everything, greeting=partial(greeting, system)))
        finally:
            guard.finish()


def _close_to_others(directory: DataDirectory) -> None:
    """Close the data directory to other accounts, and print what was open.

    Raises:
        DataDirectoryUnusableError: something in it belongs to another account.
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


async def _supervise(system: System, stages: Sequence[Stage], *, greeting: Callable[[], str]) -> None:
    output, pulses = Output(), Pulses()
    supervisor = Supervisor(
        stages=stages,
        output=output,
        announce=lambda: output.greet(greeting()),
        stay=system.options.stay,
        pulses=pulses,
        alarm=ring,
    )
    with (
        closing(await pulses.listen(Path(system.environment[PULSE_SOCKET]))),
        closing(await supervisor.answer(Path(system.environment[PARTS_SOCKET]))),
    ):
        await supervisor.run()


def _environment(options: StackOptions, directory: DataDirectory, guard: Guard) -> dict[str, str]:
    """Return the variables of every part but the servers, which add their own addresses.

    Raises:
        AddressNeededError: the address of the system is not known.
    """
    path = os.pathsep.join(filter(None, [str(options.project), os.environ.get("PYTHONPATH")]))
    environment = {**options.defaults, **os.environ, **guard.environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    # Without bytecode files each of a dozen processes would compile all its imports.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["WMS_DATA_DIR"] = str(directory.path)
    environment.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
    if "WMS_SECRET_KEY" not in environment:
        environment["WMS_SECRET_KEY"] = directory.secret_key()
    if "WMS_METRICS_TOKEN" not in environment:
        environment["WMS_METRICS_TOKEN"] = directory.metrics_token()
    environment[COUNTERS] = str(directory.emptied("counters"))
    if options.listener.url:
        environment.setdefault("WMS_SERVER_URL", options.listener.url)
    elif "WMS_SERVER_URL" not in environment:
        raise AddressNeededError("Name the address of the proxy before the socket in WMS_SERVER_URL.")
    directory.part("static")  # WhiteNoise warns if it is missing
    return environment


def _embed(options: StackOptions, directory: DataDirectory, sockets: Path, guard: Guard) -> tuple[System, list[Stage]]:
    """Return the system, and the stages of the servers that no variable names."""
    environment = _environment(options, directory, guard)
    environment |= {PULSE_SOCKET: str(sockets / "pulses"), PARTS_SOCKET: str(sockets / "parts")}
    servers: list[ServicePart] = []
    before: list[Stage] = []
    after: list[Stage] = []
    server_environment = environment_of_server() | guard.environment
    if "WMS_DATABASE_URL" not in os.environ:
        postgres = PostgresServer(programs=find_postgres(), data=directory.path / "postgres", sockets=sockets)
        environment |= {"WMS_DATABASE_URL": postgres.url(_DATABASE), "WMS_EMBEDDED": "1"}
        environment.setdefault("WMS_DIRECTOR_CYCLE_S", _CYCLE_S)
        before.append([CallPart(function=postgres.create)])
        servers.append(
            ServicePart(
                name="postgres",
                command=postgres.command(),
                environment=server_environment,
                is_ready=postgres.is_ready,
                before_restart=postgres.end_strays,
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
                quiet=True,  # it warns of settings for servers that write to disk
                is_ready=valkey.is_ready,
            )
        )
    system = System(options=options, directory=directory, environment=environment)
    return system, [*before, servers, *after]


def _own_stages(system: System) -> list[Stage]:
    stages: list[Stage] = [[_prepare(system), *_static_files(system)], [_web(system), *_workers(system), _beat(system)]]
    # After the web server and so stopped before it: pilots of this machine give their jobs back.
    stages.append([_pilots(system)])
    return stages


def _prepare(system: System) -> CommandPart:
    """Return the command that migrates the database and applies the configuration file."""
    file = system.options.configuration
    if file is None:
        migrate = system.manage("migrate", "--keep-id-mark", "--no-input", "--verbosity", "0")
        return CommandPart(name="migrate", command=migrate, environment=system.environment)
    return CommandPart(
        name="configure",
        # One process for both, as starting it takes longest.
        # A start is not refused because jobs wait; what the file stops is printed.
        command=system.manage("configure", str(file.absolute()), "--migrate", "--confirm"),
        environment={**system.environment, **system.options.configuration_variables},
        failure=f"The configuration file {file} could not be applied, for the reason above.",
    )


def _static_files(system: System) -> list[CommandPart]:
    """Return the command that collects style sheets and scripts; embedded systems serve them from the packages."""
    if system.environment.get("WMS_EMBEDDED", "").lower() in Env.BOOLEAN_TRUE_STRINGS:
        return []
    collect = system.manage("collectstatic", "--no-input", "--verbosity", "0")
    return [CommandPart(name="static", command=collect, environment=system.environment)]


def _host(system: System) -> str:
    """Return the name for requests to the web server: also at a Unix socket it answers only those for its own names."""
    return urlsplit(system.environment["WMS_SERVER_URL"]).hostname or ""


def _web(system: System) -> ServicePart:
    concurrency = ["--workers", str(system.options.web_workers), "--threads", str(_WEB_THREADS)]
    return ServicePart(
        name="web",
        command=system.python("-m", "wms.web", *system.options.listener.server_options, *concurrency),
        environment=system.named("web"),
        is_ready=partial(system.options.listener.answers, host=_host(system)),
    )


def _workers(system: System) -> list[ServicePart]:
    """Return one Celery worker for each queue, so that unreachable sites never delay the expiry of leases."""
    return [
        ServicePart(
            name=queue,
            # Threads: one process each, which leaves no child behind.
            command=_celery(
                system,
                "worker",
                *("--queues", queue, "--hostname", f"{queue}@%h", "--pool", "threads", *threads),
                *("--prefetch-multiplier", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"),
            ),
            environment=system.named(queue),
            works=partial(_reports, system, queue),
            stop_within_s=5,
        )
        # The other has a thread for each periodic task (wms.celery).
        for queue, threads in (("control", ()), ("sites", ("--concurrency", str(_SITES_AT_ONCE))))
    ]


def _beat(system: System) -> ServicePart:
    schedule = str(system.directory.part("beat") / "schedule")
    return ServicePart(
        name="beat",
        command=_celery(system, "beat", "--schedule", schedule, "--pidfile", ""),
        environment=system.named("beat"),
        works=partial(_reports, system, "beat"),
        stop_within_s=5,
    )


def _reports(system: System, part: str) -> bool:
    """Return whether the web server does not say that a part is silent."""
    # The task by which beat reports is executed by control, which may be the one that hangs: both are named.
    reported = "beat" if part == "control" else part
    return not system.options.listener.is_silent(reported, host=_host(system))


def _pilots(system: System) -> ServicePart:
    return ServicePart(
        name="pilots",
        command=system.python("-m", "wms.stack.pilot_drain", str(system.directory.path / "pilots")),
        environment=system.named("pilots"),
        stop_within_s=_LEAVING_S,
    )


def _celery(system: System, what: str, *arguments: str) -> list[str]:
    # Root is safe here: the messages are JSON, which cannot execute code.
    silence = ["-W", "ignore:You're running the worker with superuser privileges"]
    # So is an account without a name.
    silence += ["-W", "ignore:An entry for the specified gid or egid was not found"]
    # Its own program would import the application from the current directory.
    program = ["-c", "import sys; from wms.celery import app; sys.exit(app.start(sys.argv[2:]))", "celery"]
    return system.python(*silence, *program, "--quiet", what, "--loglevel", "WARNING", *arguments)


def _for_other_commands(system: System) -> dict[str, str]:
    names = ("WMS_DATABASE_URL", "WMS_REDIS_URL", "WMS_SECRET_KEY", "WMS_EMBEDDED", "WMS_DATA_DIR")
    return {name: system.environment[name] for name in names if name in system.environment}
