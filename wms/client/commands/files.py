"""Commands about files: those of storage elements are listed, and files of this computer are uploaded for jobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..connection import API
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import size
from .command import Command, CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_REPLICAS = (
    TableColumn("FILE", importance=4),
    TableColumn("STORAGE ELEMENT", importance=3),
    TableColumn("SIZE", ColumnKind.NUMBER, importance=2),
    TableColumn("CHECKSUM", importance=1),
)
_UPLOADED = (
    TableColumn("FILE", importance=1),
    TableColumn("SANDBOX", ColumnKind.WHOLE, importance=3),
    TableColumn("SIZE", ColumnKind.NUMBER),
)


def _configure(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the replicas of files", allow_abbrev=False)
    listing.add_argument("lfn", nargs="?", metavar="LFN", help="logical name of one file")
    listing.add_argument("--directory", metavar="DIR", help="files below this directory, such as /lhcb/user")
    listing.add_argument("--storage-element", metavar="NAME", help="replicas at this storage element")
    listing.add_argument("--vo", metavar="VO", help="files of this VO")
    add_limit(listing, what="replicas")
    about = "upload files as input sandboxes; prints the name by which descriptions name each"
    putting = actions.add_parser("put", help=about, description=about, allow_abbrev=False)
    putting.add_argument("files", nargs="+", type=Path, metavar="FILE", help="file or archive of this computer")


def _files(options: Namespace, session: CommandSession) -> CommandOutput:
    return _list(options, session) if options.action == "list" else _put(options, session)


def _list(options: Namespace, session: CommandSession) -> CommandOutput:
    names = ("lfn", "directory", "storage_element", "vo")
    query = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if "lfn" in query:
        query["lfn"] = query["lfn"][4:] if query["lfn"][:4].upper() == "LFN:" else query["lfn"]
    found, notes = rows_within(session, "replicas/", query=query, limit=options.limit)
    is_terminal = session.console.is_terminal
    rows = []
    for each in found:
        length = each["size_bytes"]
        shown = size(length) if is_terminal and length is not None else length
        rows.append([each["lfn"], each["storage_element"], shown, each["checksum"]])
    return CommandOutput(found, [Table(_REPLICAS, rows, empty="No replica matches."), *notes])


def _put(options: Namespace, session: CommandSession) -> CommandOutput:
    uploaded = [session.server.upload(f"{API}sandboxes/", path, expects="sandbox") for path in options.files]
    rows = [[str(path), each["sandbox"], each["size_bytes"]] for path, each in zip(options.files, uploaded)]
    return CommandOutput(uploaded, [Table(_UPLOADED, rows)])


COMMANDS = {"files": Command(_configure, _files)}
