"""The action of `wms admin` on the configuration as a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..connection import Record
from ..errors import WrongUsageError
from ..terminal.console import Part, can_ask
from ..terminal.text import plain
from .admin_changes import AdminAction, address_of
from .command import CommandOutput, CommandSession
from .selection import CancelledError


def _configure_configuration(parser: ArgumentParser) -> None:
    about = "get: print what you may change as a file; diff: show what FILE would change; apply: change it"
    parser.add_argument("do", choices=("get", "diff", "apply"), help=about)
    parser.add_argument("file", nargs="?", metavar="FILE", help="file in YAML; -: standard input")
    parser.add_argument(
        "--confirm", action="store_true", help="do not ask before deletions, nor before what stops jobs"
    )


def _configuration(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.do == "get":
        if options.file is not None:
            raise WrongUsageError("Leave out FILE: get prints the file.")
        answer = session.server.get(address_of("configuration"), expects="file")
        return CommandOutput(answer, [*str(answer["file"]).rstrip("\n").split("\n")])
    if options.file is None:
        raise WrongUsageError("Name the file; - means standard input.")
    file = _read(options.file)
    found = session.server.post(
        address_of("configuration", "preview"), {"file": file}, expects="version", repeatable=True
    )
    if options.do == "diff" or options.dry_run or not found["differences"]:
        return CommandOutput(found, [*_shown(found)])
    asks = [*found["deletions"], *(each["sentence"] for each in found["consequences"])]
    if asks and not options.confirm and can_ask():
        sys.stderr.write("\n".join(map(plain, [*asks, "Is this meant? [y/N] "])))
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise CancelledError("Nothing was changed.")
        options.confirm = True
    meant = {"delete": True, "confirmed": [each["sentence"] for each in found["consequences"]]}
    body = {"file": file, "version": found["version"], **(meant if options.confirm else {})}
    # Not repeatable: a repetition finds the configuration changed.
    applied = session.server.post(address_of("configuration", "apply"), body, expects="version")
    return CommandOutput(applied, [*_shown(applied), "The file is applied."])


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsageError(f"{plain(name)} cannot be read: {plain(error)}.") from error


def _shown(found: Record) -> Iterator[Part]:
    for each in found["differences"]:
        yield f"{plain(each['sign'])} {plain(each['row'])}"
        for change in each["changes"]:
            before = f"{plain(change['before'])} → " if change["before"] else ""
            yield f"    {plain(change['name'])}: {before}{plain(change['after'])}"
    if not found["differences"]:
        yield "nothing to change"
    for each in found["deletions"]:
        yield f"deletes: {plain(each)}"
    for each in found["consequences"]:
        yield f"{plain(each['sentence'])} {plain(each['extent'])}"
    for each in found["warnings"]:
        yield f"warning: {plain(each)}"


ACTIONS: Mapping[str, AdminAction] = {
    "configuration": AdminAction(
        "print the configuration that you may change as a file; compare one, and apply it",
        _configure_configuration,
        _configuration,
    ),
}
