"""The servers of one run: those of ``up``, with its settings, in a temporary directory.

This module does not import Django's models, because the servers are started before Django is set up.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

import django
import psutil
import psycopg
from django.core.management import call_command
from django.db import connections

from pilots.backends.local import dismiss
from tests.benchmarks.machine import Machine, describe_machine
from tests.benchmarks.measuring import NotMeasurableError
from tests.pace import Deadline
from wms.stack import services
from wms.stack.directory import claimed
from wms.stack.guard import Guard
from wms.stack.listening import Listener
from wms.stack.parts import CallPart, ServicePart
from wms.stack.services import System

PROJECT = Path(__file__).resolve().parents[2]
#: What leads to servers; here it leads to none but our own.
_NOT_OURS = ("WMS_DATABASE_URL", "WMS_REDIS_URL", "WMS_DATA_DIR", "WMS_SECRET_KEY", "WMS_SERVER_URL")
_HOST = "127.0.0.1"
_EMPTY = "empty"
#: Seconds of an idle machine in which a server is ready.
_READY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The servers and the machine of a run."""

    system: System
    #: Where everything that is written goes.
    logs: Path
    postgres: psutil.Process
    valkey: psutil.Process
    machine: Machine

    @contextmanager
    def web(self, *, processes: int) -> Iterator["Web"]:
        """Run the web server with this many workers, and as in `up` the broker, a Celery worker and beat."""
        options = replace(self.system.options, listener=Listener(port=_free_port()), web_workers=processes)
        system = replace(self.system, options=options)
        with running(_background(system), self.logs) as background, running(services._web(system), self.logs) as server:
            yield Web(port=options.listener.port, server=server, background=background)

    @contextmanager
    def with_pilots(self) -> Iterator[None]:
        """Run all servers of `up`, and at the end dismiss the pilots that were sent."""
        with ExitStack() as stack:
            stack.callback(dismiss, self.system.directory.path / "pilots")
            for part in (services._web(self.system), *services._workers(self.system), services._beat(self.system)):
                stack.enter_context(running(part, self.logs))
            yield

    @contextmanager
    def empty_database(self) -> Iterator[None]:
        """Give this process, and the servers that it starts meanwhile, a database with all tables and no rows."""
        with _database(self.system) as connection:
            connection.execute(f"CREATE DATABASE wms TEMPLATE {_EMPTY}")
        try:
            yield
        finally:
            connections.close_all()
            with _database(self.system) as connection:
                connection.execute("DROP DATABASE wms WITH (FORCE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """A running web server."""

    port: int
    server: psutil.Process
    background: psutil.Process


@contextmanager
def surroundings(*, settings: Mapping[str, str]) -> Iterator[Surroundings]:
    """Start the servers, set Django up, and remove everything at the end.

    Args:
        settings: environment variables of this process and all that it starts.
    """
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    os.environ.update(settings)
    # A socket's path must be short.
    directory = Path(tempfile.mkdtemp(prefix="wms-", dir=_short_directory()))
    with ExitStack() as stack:
        data = stack.enter_context(claimed(directory))
        sockets = data.sockets()
        guard = Guard(paths=[sockets, directory], keep=[data.cleaning])
        stack.callback(guard.finish)
        options = services.StackOptions(
            project=PROJECT, data=directory, listener=Listener(port=_free_port()), web_workers=1
        )
        system, stages = services._embed(options, data, sockets, guard)
        started = {}
        for part in (part for stage in stages for part in stage):
            if isinstance(part, CallPart):
                part.function()
            elif isinstance(part, ServicePart):
                started[part.name] = stack.enter_context(running(part, directory))
        os.environ.update({name: value for name, value in system.environment.items() if name.startswith("WMS_")})
        os.environ["DJANGO_SETTINGS_MODULE"] = "wms.settings"
        _set_up_django(stack, log=directory / "benchmark.log")
        with _database(system) as database:
            _make_empty_database(database)
            machine = describe_machine(database)
        yield Surroundings(
            system=system, logs=directory, postgres=started["postgres"], valkey=started["valkey"], machine=machine
        )
    shutil.rmtree(directory, ignore_errors=True)


def _background(system: System) -> ServicePart:
    """Return the Celery worker of periodic tasks, with beat in its process, which starts in half the time."""
    control = next(worker for worker in services._workers(system) if worker.name == "control")
    schedule = system.directory.part("beat") / "schedule"
    return replace(control, command=[*control.command, "--beat", "--schedule", str(schedule)])


def _database(system: System) -> "psycopg.Connection[tuple[object, ...]]":
    url = system.environment["WMS_DATABASE_URL"].replace("/wms?", "/postgres?")
    return psycopg.connect(url, autocommit=True)


def _make_empty_database(database: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Make the tables once, in a database that is then copied."""
    call_command("migrate", verbosity=0)
    connections.close_all()
    database.execute(f"ALTER DATABASE wms RENAME TO {_EMPTY}")


def _set_up_django(stack: ExitStack, *, log: Path) -> None:
    """Set Django up; its logs, as in production, go to a file and not between the figures."""
    file = stack.enter_context(log.open("w", encoding="utf-8"))
    with redirect_stderr(file):
        django.setup()


@contextmanager
def running(service: ServicePart, logs: Path) -> Iterator[psutil.Process]:
    """Run a server until the end of the block, ready at its beginning; its output goes to a file of its name."""
    log = logs / f"{service.name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            service.command, env=service.environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = Deadline(_READY_S)
        while not service.is_ready():
            if process.poll() is not None or deadline.has_passed():
                raise NotMeasurableError(f"{service.name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(service.stop_signal)
        try:
            process.wait(timeout=service.stop_within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _short_directory() -> str:
    wanted = tempfile.gettempdir()
    return wanted if len(wanted) < 40 else "/tmp"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        number: int = listener.getsockname()[1]
        return number
