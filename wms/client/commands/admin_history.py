"""The actions of `wms admin` that list what was changed, and revert a change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping

from ..connection import Record
from ..terminal.tables import ColumnKind, Table, TableColumn, exact
from ..terminal.text import plain
from .admin_changes import (
    AdminAction,
    add_confirm,
    add_reason,
    address_of,
    reason_in,
    send_confirmed,
    tried,
)
from .arguments import whole_number
from .command import CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_HISTORY = (
    TableColumn("TIME", ColumnKind.MOMENT, importance=4),
    TableColumn("WHO", importance=3),
    TableColumn("WHAT", importance=2),
    TableColumn("CHANGE", importance=1),
    TableColumn("ID", ColumnKind.NUMBER, importance=5),
)


def _configure_history(parser: ArgumentParser) -> None:
    parser.add_argument("--vo", metavar="VO", help="changes that concern this VO")
    parser.add_argument("--who", metavar="USER", help="changes by this user")
    parser.add_argument("--target", metavar="NAME", help='changes of this, such as "site LCG.Example.org"')
    add_limit(parser, what="changes")


def _history(options: Namespace, session: CommandSession) -> CommandOutput:
    given = {name: getattr(options, name) for name in ("vo", "who", "target")}
    query = {name: value for name, value in given.items() if value is not None}
    found, notes = rows_within(session, "history/", query=query, limit=options.limit)
    rows = [[each["at"], each["who"], each["target"], _facts_in_words(each["facts"]), each["id"]] for each in found]
    return CommandOutput(found, [Table(_HISTORY, rows, empty="Nothing that you may see was changed."), *notes])


def _facts_in_words(facts: Record) -> str:
    """Return what a change did, such as "priority 1000 → 9000; reason a campaign"."""
    changes = {name: value for name, value in facts.items() if name not in {"what", "changes"}}
    changes.update(facts.get("changes") or {})
    what = [] if facts.get("what") in (None, "changed") else [str(facts["what"])]
    return "; ".join([*what, *(f"{name} {exact(value)}" for name, value in _flat(changes) if value not in (None, ""))])


def _flat(changes: Record) -> Iterator[tuple[str, object]]:
    """Yield (name, value), also of the fields of an object."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {inner}", each) for inner, each in _flat(value))
        else:
            yield name, value


def _configure_revert(parser: ArgumentParser) -> None:
    parser.add_argument("change", type=whole_number, metavar="ID", help="id of the change, of `wms admin history`")
    add_reason(parser, required=False)
    add_confirm(parser)


def _revert(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("history", str(options.change), "revert")
    body = {"dry_run": options.dry_run, **reason_in(options)}
    answer = send_confirmed(lambda sent: session.server.post(address, sent, expects="change"), body, options)
    sentence = f"Change {options.change} of the {plain(answer['target'])} is reverted: {plain(answer['change'])}."
    return CommandOutput(answer, [tried(options, sentence)])


ACTIONS: Mapping[str, AdminAction] = {
    "history": AdminAction(
        "list changes of the configuration, newest first", _configure_history, _history, is_change=False
    ),
    "revert": AdminAction("revert a change of one field", _configure_revert, _revert),
}
