"""The parts that all commands share: the session, the answer, and the registration of a command."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .. import credentials
from ..connection import Connection, Record
from ..errors import Exit, ServerRefusedError, WrongUsageError
from ..terminal.console import Console, Part
from ..wire.protocol import API_V1


class CommandOutput(NamedTuple):
    """The output of a command."""

    #: With ``--json``: JSON of the server, as far as there is one.
    data: object
    #: Without.
    parts: Sequence[Part]
    #: Name, in the data, of the list from whose entries ``--json FIELDS`` selects; empty: the data itself.
    rows: str = ""
    exit_code: Exit = Exit.DONE


class CommandSession:
    """The surroundings of one command.

    Args:
        environment: variables of the process.
        console: for output that appears before the command has ended.
    """

    def __init__(self, environment: Mapping[str, str], console: Console) -> None:
        self.environment = environment
        self.console = console
        self._server: Connection | None = None
        self._username = ""

    @property
    def server(self) -> Connection:
        """Return the server of the last log-in, or of the environment.

        Raises:
            NotLoggedInError: there is no token for it.
        """
        if self._server is None:
            self._server = credentials.logged_in(self.environment)
        return self._server

    def close(self) -> None:
        """Close the connections to the server."""
        if self._server is not None:
            self._server.close()

    @property
    def username(self) -> str:
        """Return the user name of the token's owner."""
        if not self._username:
            self._username = str(self.server.get(f"{API_V1}auth/me/", expects="username")["username"])
        return self._username


@contextmanager
def about_job(job_id: int) -> Iterator[None]:
    """Name the job in a refusal that says only that there is no such object.

    Raises:
        ServerRefusedError: as inside.
    """
    try:
        yield
    except ServerRefusedError as error:
        if error.code != "not_found":
            raise
        detail = f"There is no job {job_id}, or you may not see it; an ended job may have been removed."
        raise ServerRefusedError({**error.as_json(), "detail": detail}, status=error.status) from error


def make_directory(directory: Path) -> None:
    """Make the directory in which files are written, with those above it.

    Raises:
        WrongUsageError: it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUsageError(f"{directory} cannot be made ({error.strerror}); name another directory.") from error


#: Runs the command.
Run = Callable[[Namespace, CommandSession], CommandOutput]


class Command(NamedTuple):
    """A command."""

    #: Adds its arguments to its parser.
    configure: Callable[[ArgumentParser], None]
    run: Run


def selected(answer: CommandOutput, fields: Sequence[str]) -> object:
    """Return the data of an answer with some fields only, as ``--json FIELDS`` prints it.

    Raises:
        WrongUsageError: there is no such field.
    """
    data = answer.data[answer.rows] if answer.rows and isinstance(answer.data, Mapping) else answer.data
    if isinstance(data, Mapping):
        return _with_fields(data, fields)
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_with_fields(record, fields) for record in data]
    return data


def _with_fields(record: Record, fields: Sequence[str]) -> dict[str, object]:
    unknown = [name for name in fields if name not in record]
    if unknown:
        known = ", ".join(sorted(record))
        raise WrongUsageError(f'There is no field "{unknown[0]}" in the answer; its fields are {known}.')
    return {name: record[name] for name in fields}
