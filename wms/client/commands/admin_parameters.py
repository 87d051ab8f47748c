"""The action of `wms admin` on parameters of sites, computing elements and queues: what jobs may require there."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ..connection import Record
from ..errors import WrongUsageError
from ..terminal.tables import Table, TableColumn
from ..terminal.text import plain
from .admin_changes import AdminAction, add_reason, address_of_place, reason_in, tried
from .command import CommandOutput, CommandSession

_PARAMETERS = (
    TableColumn("VO", importance=1),
    TableColumn("NAME", importance=3),
    TableColumn("VALUE", importance=2),
)


def _configure(parser: ArgumentParser) -> None:
    about = "site, computing element or queue; without anything else its own parameters are listed"
    parser.add_argument("place", metavar="SITE[/CE[/QUEUE]]", help=about)
    about = 'parameter to set; a value in JSON, such as 4000 or ["a", "b"], is taken so, any other as a text'
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE", help=about)
    parser.add_argument("--vo", metavar="VO", help="for jobs of this VO only; left out: for those of all VOs")
    parser.add_argument("--remove", action="append", default=[], metavar="NAME", help="parameter to remove; repeatable")
    add_reason(parser, required=False)


def _parameters(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of_place(options.place, "parameters")
    stored = session.server.get(address, expects="vo_parameters")
    if not options.values and not options.remove:
        if options.because is not None or options.dry_run:
            raise WrongUsageError("Say what changes: NAME=VALUE, or --remove NAME.")
        return _listed(stored, vo=options.vo)
    of_all, by_vo = dict(stored["parameters"]), {vo: dict(own) for vo, own in stored["vo_parameters"].items()}
    _change(of_all if options.vo is None else by_vo.setdefault(options.vo, {}), options)
    body = {
        "parameters": of_all,
        "vo_parameters": {vo: own for vo, own in by_vo.items() if own},
        **reason_in(options),
        "dry_run": options.dry_run,
    }
    answer = session.server.put(address, body, expects="vo_parameters")
    number = len(options.values) + len(options.remove)
    sentence = f"Parameters of {plain(answer['place'])}: {number} changed."
    return CommandOutput(answer, [tried(options, sentence)])


def _change(parameters: dict[str, object], options: Namespace) -> None:
    for text in options.values:
        name, is_given, value = text.partition("=")
        if not (name and is_given):
            raise WrongUsageError(f'"{plain(text)}" sets no parameter; write NAME=VALUE.')
        parameters[name] = _value(value)
    for name in options.remove:
        if name not in parameters:
            raise WrongUsageError(f'There is no parameter "{plain(name)}" to remove there.')
        del parameters[name]


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _listed(stored: Record, *, vo: str | None) -> CommandOutput:
    rows = [["", name, _in_words(value)] for name, value in sorted(stored["parameters"].items())]
    rows += [
        [own_vo, name, _in_words(value)]
        for own_vo, own in sorted(stored["vo_parameters"].items())
        for name, value in sorted(own.items())
    ]
    shown = rows if vo is None else [row for row in rows if row[0] == vo]
    return CommandOutput(stored, [Table(_PARAMETERS, shown, empty="There are no parameters of its own.")])


def _in_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ACTIONS: Mapping[str, AdminAction] = {
    "parameters": AdminAction("list or set what jobs may require of a place", _configure, _parameters),
}
