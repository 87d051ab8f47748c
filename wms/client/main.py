"""``wms``: parses the command line, runs one command, and prints its output."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from .catalogue import ALIASES, ENTRIES, SECTIONS, command_of, nearest, parser_of
from .errors import ClientError, Exit
from .terminal.text import plain
from .wire.version import __version__

if TYPE_CHECKING:
    from .commands.command import CommandOutput, CommandSession

#: Of a process that Ctrl-C has ended, as shells have it.
INTERRUPTED = 130
_HELP = """\
usage: wms COMMAND ...

Jobs, from the command line.
{sections}

`wms COMMAND --help` shows the arguments of a command; `wms --version` the version.
Each command takes --json. WMS_SERVER_URL and WMS_TOKEN override what `wms login` has stored.
Exit codes: 0 done, 1 refused, 2 wrong usage, 3 server not reachable.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads the output has enough of it. NB: else Python flushes once more at its end, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED
    return code


def _run(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else ""
    if name in {"--version", "-V"}:
        sys.stdout.write(f"wms {__version__}\n")
        return Exit.DONE
    if name in {"--help", "-h", "help"}:
        sys.stdout.write(help_text())
        return Exit.DONE
    if name not in ENTRIES and name not in ALIASES:
        hint = nearest(name, [*ENTRIES, *ALIASES])
        sentence = f'there is no command "{plain(name)}".{hint}' if name else "name a command."
        sys.stderr.write(f"wms: {sentence} `wms --help` lists the commands.\n")
        sys.exit(Exit.WRONG_USAGE)
    # NB: on a wrong command line the parser ends the process itself, with 2.
    options = parser_of(name).parse_args(arguments[1:])
    try:
        return _answer(name, options)
    except ClientError as error:
        sys.stderr.write((f"wms: {_sentences(error)}" if options.json is None else json.dumps(error.as_json())) + "\n")
        return error.exit_code


def _answer(name: str, options: Namespace) -> int:
    """Run the command, and print its output."""
    console_module = import_module(".terminal.console", __package__)
    command_module = import_module(".commands.command", __package__)
    console = console_module.Console(sys.stdout, os.environ)
    session: CommandSession = command_module.CommandSession(os.environ, console)
    try:
        answer: CommandOutput = command_of(name).run(options, session)
    finally:
        session.close()
    if options.json is None:
        console.print(answer.parts)
    else:
        fields = [field.strip() for field in options.json.split(",") if field.strip()]
        data = command_module.selected(answer, fields) if fields else answer.data
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    return answer.exit_code


def help_text() -> str:
    """Return the help: all commands, by section."""
    lines = []
    for heading, entries in SECTIONS.items():
        lines += ["", f"{heading}:"]
        for name, entry in entries.items():
            others = [alias for alias, meant in ALIASES.items() if meant == name]
            lines.append(f"  {', '.join([name, *others]):18}{entry.summary}")
    return _HELP.format(sections="\n".join(lines))


def _sentences(error: ClientError) -> str:
    """Return the sentence of an error, or its lines, and those of the fields that are wrong."""
    errors = getattr(error, "errors", {})
    lines = [plain(line) for line in str(error).split("\n")]
    for field, sentences in errors.items():
        lines += [f"  {plain(field)}: {plain(sentence)}" for sentence in sentences if str(sentence) not in str(error)]
    return "\n".join(lines)
