"""The parts of `wms admin` that its actions share: reasons, ends, tries, and what has to be confirmed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from ..connection import Record
from ..errors import ServerRefusedError, WrongUsageError
from ..terminal.console import can_ask
from ..terminal.text import plain
from ..wire.protocol import API_V1
from .arguments import seconds
from .command import CommandOutput, CommandSession
from .selection import CancelledError


class AdminAction(NamedTuple):
    """An action below ``wms admin``."""

    about: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, CommandSession], CommandOutput]
    is_change: bool = True


def add_reason(parser: ArgumentParser, *, required: bool = True) -> None:
    """Add the reason of a change."""
    parser.add_argument("--because", metavar="TEXT", required=required, help="reason, which the history keeps")


def reason_in(options: Namespace) -> dict[str, object]:
    """Return the field of the reason, if the command line has one."""
    return {} if options.because is None else {"reason": options.because}


def add_end(parser: ArgumentParser) -> None:
    """Add the end of a state: a duration or a time."""
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help="duration, such as 2h or 3d")
    end.add_argument("--until", metavar="TIME", help="end, as RFC 3339: 2026-06-01T12:00:00Z")


def add_confirm(parser: ArgumentParser) -> None:
    """Add the option by which a script confirms what stops jobs."""
    parser.add_argument("--confirm", action="store_true", help="do not ask before a change that stops jobs")


def end_in(options: Namespace) -> dict[str, object]:
    """Return the fields of the end that the command line names."""
    given = {"for_s": options.for_s, "until": options.until}
    return {name: value for name, value in given.items() if value is not None}


def address_of(*names: str) -> str:
    """Return the address below the interface with these parts."""
    return API_V1 + "".join(f"{quote(name, safe='')}/" for name in names)


def address_of_place(place: str, *names: str) -> str:
    """Return the address of what *names* are of a place: SITE, SITE/CE or SITE/CE/QUEUE."""
    levels = [part for pair in zip(("sites", "ces", "queues"), names_of_place(place)) for part in pair]
    return address_of(*levels, *names)


def names_of_place(place: str) -> list[str]:
    """Return the names of a place: of its site, its computing element and its queue, as far as it has them.

    Raises:
        WrongUsageError: it is no place.
    """
    names = place.split("/")
    if len(names) > 3 or not all(names):
        raise WrongUsageError(f'"{plain(place)}" is no place; write SITE, SITE/CE or SITE/CE/QUEUE.')
    return names


def delete(session: CommandSession, address: str, options: Namespace) -> None:
    """Delete what the address names; in a dry run the server only checks it."""
    session.server.delete(address, query={"dry_run": "true"} if options.dry_run else None)


def tried(options: Namespace, sentence: str) -> str:
    """Return what a change did, or would do."""
    return f"Nothing was changed. With the change: {sentence}" if options.dry_run else sentence


def send_confirmed(send: Callable[[Record], Record], body: Record, options: Namespace) -> Record:
    """Send a change; if it would stop jobs, ask at a terminal, and send it again.

    Raises:
        CancelledError: the answer is not yes.
        ServerRefusedError: there is nobody to ask, and no ``--confirm``; or something else is wrong.
    """
    try:
        return send(body)
    except ServerRefusedError as error:
        if error.code != "confirmation_needed" or not (options.confirm or can_ask()):
            raise
        if not options.confirm:
            sys.stderr.write(f"{plain(error)} Is this meant? [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
                raise CancelledError("Nothing was changed.") from error
        return send({**body, "confirmed": error.errors.get("confirmed", [])})


def not_found(detail: str) -> ServerRefusedError:
    """Return the error for what the server did not list."""
    return ServerRefusedError({"code": "not_found", "detail": detail}, status=404)
