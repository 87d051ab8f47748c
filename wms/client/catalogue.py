"""The commands of ``wms`` by name; the module of a command is imported only when the command is used."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .errors import Exit

if TYPE_CHECKING:
    from .commands.command import Command


class Entry(NamedTuple):
    """A command in the catalogue."""

    #: Below ``wms.client.commands``.
    module: str
    summary: str


#: {heading of ``wms --help``: {name: command}}. Commands of managers get a section of their own.
SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Account": {
        "login": Entry("login", "log in, and store the token for later commands"),
        "logout": Entry("login", "revoke the token, and forget it"),
        "whoami": Entry("login", "show user, groups and roles"),
    },
    "Jobs": {
        "submit": Entry("submit", "submit jobs by JDL, CFG, JSON, YAML, or options"),
        "list": Entry("jobs", "list jobs, newest first"),
        "show": Entry("jobs", "show everything about jobs"),
        "watch": Entry("watch", "show jobs on the whole screen, as they change"),
        "why": Entry("why", "explain why jobs wait"),
        "logs": Entry("output", "show the last lines of a job's output"),
        "output": Entry("output", "fetch the output of jobs into directories"),
        "kill": Entry("control", "kill jobs"),
        "hold": Entry("control", "keep jobs from being matched"),
        "release": Entry("control", "let held jobs be matched again"),
        "reschedule": Entry("control", "let jobs run anew"),
        "edit": Entry("control", "change a job that waits"),
        "delete": Entry("control", "delete jobs that no pilot holds"),
    },
    "Many jobs": {
        "submissions": Entry("submissions", "list submissions with the numbers of their jobs"),
        "failures": Entry("submissions", "group failed jobs by what they have in common"),
        "retry": Entry("control", "run failed jobs again, as they are or with changes"),
    },
    "Resources": {
        "sites": Entry("resources", "list sites; of one, its batch queues"),
        "queues": Entry("resources", "list the task queues in which jobs wait"),
        "pools": Entry("resources", "list submit pools"),
        "pilots": Entry("resources", "list pilots, or sum them up with their efficiency"),
        "shares": Entry("resources", "show the shares of groups, configured and delivered"),
        "accounting": Entry("accounting", "sum up jobs, CPU time and core hours by group, user, site, type or month"),
        "files": Entry("files", "list replicas, download them; upload files for jobs"),
        "match-test": Entry("why", "show which jobs an offer would get, and why not the others; for managers"),
    },
    "Administration": {
        "admin": Entry("admin", "administer sites, shares, people, limits, pauses and pilots; for managers"),
    },
    "Shell": {
        "completion": Entry("completion", "print the completion of bash, zsh or fish"),
    },
}
ENTRIES: Mapping[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
#: {other name of a command: its name}.
ALIASES: Mapping[str, str] = {
    "status": "show",
    "explain": "why",
    "peek": "logs",
    "ls": "list",
    "ps": "list",
    "cancel": "kill",
    "rm": "delete",
    "tail": "logs",
}


class CommandParser(ArgumentParser):
    """A parser whose errors are one sentence that suggests the nearest option or command."""

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - of many forms
        """Return what was found; what is unknown behind an action is refused with the options of the action."""
        found, unknown = super().parse_known_args(*arguments, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End the process with WRONG_USAGE."""
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0]
        if unknown.startswith("-"):
            message = f"there is no option {unknown}.{nearest(unknown, self._option_string_actions)}"
        elif unknown:
            message = f'"{unknown}" is one argument too many.'
        ended = "" if message.endswith((".", "?")) else "."
        sys.stderr.write(f"{self.prog}: {message}{ended} `{self.prog} --help` shows the arguments.\n")
        sys.exit(Exit.WRONG_USAGE)


def command_of(name: str) -> Command:
    """Return the command of this name or alias."""
    entry = ENTRIES[ALIASES.get(name, name)]
    module = import_module(f".commands.{entry.module}", __package__)
    command: Command = module.COMMANDS[ALIASES.get(name, name)]
    return command


def parser_of(name: str) -> ArgumentParser:
    """Return the parser of the arguments behind a command's name.

    Args:
        name: of a command, or an alias.
    """
    summary = ENTRIES[ALIASES.get(name, name)].summary
    parser = CommandParser(prog=f"wms {name}", description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False)
    command_of(name).configure(parser)
    # NB: not to both: the default of an action would replace a value that stands before it.
    for each in actions_below(parser) or [parser]:
        each.add_argument(
            "--json",
            nargs="?",
            const="",
            metavar="FIELDS",
            help="print JSON: the fields that are named, with commas between; without, the whole answer of the server",
        )
    return parser


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known name, and a blank before it; empty: none is near."""
    # Imported here only: few command lines are wrong.
    near: Sequence[str] = import_module("difflib").get_close_matches(name, list(known), n=1)
    return f" Do you mean {near[0]}?" if near else ""


def actions_below(parser: ArgumentParser) -> list[ArgumentParser]:
    """Return the parsers of the actions of a command, such as ``list`` of ``files``."""
    actions = (action.choices for action in parser._actions)  # noqa: SLF001 - argparse has no public way
    return [each for choices in actions if isinstance(choices, dict) for each in choices.values()]
