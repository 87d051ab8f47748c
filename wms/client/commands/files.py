"""Commands about files: those of storage elements are listed and downloaded, local files are uploaded for jobs."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ..connection import Record
from ..downloads import OnBytes
from ..errors import ClientError, Exit, WrongUsageError
from ..replicas import fetch, remove, replicas_of, without_prefix
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain, shortened, size
from ..wire.protocol import API_V1
from .command import Command, CommandOutput, CommandSession, make_directory
from .jobs import add_limit, rows_within

_REPLICAS = (
    TableColumn("FILE", importance=4),
    TableColumn("STORAGE ELEMENT", importance=3),
    TableColumn("SIZE", ColumnKind.NUMBER, importance=2),
    TableColumn("CHECKSUM", importance=1),
)
_FETCHED = (
    TableColumn("FILE", importance=3),
    TableColumn("STORAGE ELEMENT", importance=2),
    TableColumn("SIZE", ColumnKind.NUMBER, importance=1),
)
_REMOVED = (TableColumn("REMOVED", importance=2), TableColumn("STORAGE ELEMENTS", importance=1))
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
    about = "download files of storage elements, each from the first replica that can be read from here"
    getting = actions.add_parser(
        "get", help=about, description=f"{about}; compares size and checksum", allow_abbrev=False
    )
    getting.add_argument("lfns", nargs="+", metavar="LFN", help="logical name of a file")
    where = "where files are written; default: the current one"
    getting.add_argument("--directory", "-d", type=Path, default=Path(), metavar="DIR", help=where)
    getting.add_argument("--force", action="store_true", help="fetch again what is there")
    getting.add_argument("--storage-element", metavar="NAME", help="only from this storage element")
    getting.add_argument("--vo", metavar="VO", help="VO of the files; needed if files of several VOs have the name")
    about = "remove files from the catalogue and from their storage elements, so that their names are free"
    removing = actions.add_parser("rm", help=about, description=f"{about}; asks nothing", allow_abbrev=False)
    removing.add_argument("lfns", nargs="+", metavar="LFN", help="logical name of a file")
    removing.add_argument("--storage-element", metavar="NAME", help="only the replicas at this storage element")
    removing.add_argument("--vo", metavar="VO", help="VO of the files; needed if files of several VOs have the name")
    removing.add_argument("--catalogue-only", action="store_true", help="delete nothing at the storage elements")
    about = "upload files as input sandboxes; prints the name by which descriptions name each"
    putting = actions.add_parser("put", help=about, description=about, allow_abbrev=False)
    putting.add_argument("files", nargs="+", type=Path, metavar="FILE", help="file or archive of this computer")


def _files(options: Namespace, session: CommandSession) -> CommandOutput:
    return {"list": _list, "get": _get, "rm": _remove, "put": _put}[options.action](options, session)


def _list(options: Namespace, session: CommandSession) -> CommandOutput:
    names = ("lfn", "directory", "storage_element", "vo")
    query = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if "lfn" in query:
        query["lfn"] = without_prefix(query["lfn"])
    found, notes = rows_within(session, "replicas/", query=query, limit=options.limit)
    is_terminal = session.console.is_terminal
    rows = []
    for each in found:
        length = each["size_bytes"]
        shown = size(length) if is_terminal and length is not None else length
        rows.append([each["lfn"], each["storage_element"], shown, each["checksum"]])
    return CommandOutput(found, [Table(_REPLICAS, rows, empty="No replica matches."), *notes])


def _get(options: Namespace, session: CommandSession) -> CommandOutput:
    targets = _targets(options.lfns, options.directory)
    make_directory(options.directory)
    is_terminal = session.console.is_terminal
    fetched, there, rows = [], [], []
    for lfn, target in targets.items():
        found = replicas_of(session.server, lfn, vo=options.vo, storage_element=options.storage_element)
        if target.exists() and not options.force:
            _refuse_other_file(target, found[0])
            there.append({"lfn": lfn, "file": str(target)})
            continue
        shown = _progress(target.name, width=session.console.size.columns - 1) if is_terminal else None
        try:
            replica = fetch(found, target, force=options.force, environment=os.environ, on_bytes=shown)
        finally:
            if is_terminal:
                sys.stderr.write("\r\x1b[K")
        length = target.stat().st_size
        element = replica["storage_element"]
        fetched.append({"lfn": lfn, "file": str(target), "storage_element": element, "size_bytes": length})
        rows.append([str(target), element, size(length) if is_terminal else length])
    parts: list[Part] = [Table(_FETCHED, rows, empty="Nothing was fetched.")]
    if there:
        parts.append(Note(f"{len(there)} were there already; --force fetches them again."))
    return CommandOutput({"fetched": fetched, "there": there}, parts, rows="fetched")


def _targets(lfns: list[str], directory: Path) -> Mapping[str, Path]:
    """Return {logical name: file to be written}."""
    targets: dict[str, Path] = {}
    for lfn in map(without_prefix, lfns):
        name = PurePosixPath(lfn).name
        if not lfn.startswith("/") or lfn.endswith("/") or name in {"", ".."}:
            raise WrongUsageError(f'"{plain(lfn)}" is not the logical name of a file, such as /lhcb/mc/2026/x.root.')
        if directory / name in targets.values() and lfn not in targets:
            raise WrongUsageError(f"Two of the files are named {plain(name)}; fetch them into different directories.")
        targets[lfn] = directory / name
    return targets


def _refuse_other_file(target: Path, replica: Record) -> None:
    """Refuse an existing file that cannot be the one of the catalogue."""
    if not target.is_file():
        raise WrongUsageError(f"{target} is not a file; --directory names another place.")
    length, expected = target.stat().st_size, replica["size_bytes"]
    if expected not in {None, length}:
        raise WrongUsageError(
            f"{target} exists and is another file ({length} bytes, not {expected}); "
            "--force replaces it, --directory names another place."
        )


def _progress(name: str, *, width: int) -> OnBytes:
    """Return what shows the progress of a download in one line of the terminal."""
    shown = ""

    def show(have: int, whole: int | None) -> None:
        nonlocal shown
        line = f"{plain(name)}  {size(have)}{'' if whole is None else f' of {size(whole)}'}"
        if line != shown:
            shown = line
            sys.stderr.write(f"\r{shortened(line, width)}\x1b[K")
            sys.stderr.flush()

    return show


def _remove(options: Namespace, session: CommandSession) -> CommandOutput:
    named = {
        lfn: replicas_of(session.server, lfn, vo=options.vo, storage_element=options.storage_element)
        for lfn in dict.fromkeys(map(without_prefix, options.lfns))
    }
    removed: list[Record] = []
    rows, notes = [], []
    for lfn, replicas in named.items():
        try:
            left = remove(session.server, replicas, environment=None if options.catalogue_only else os.environ)
        except ClientError as error:
            # What was removed before is said nevertheless.
            if not removed:
                raise
            notes.append(f"{plain(lfn)} and what follows it are not removed: {error}")
            break
        elements = [str(each["storage_element"]) for each in replicas]
        removed.append({"lfn": lfn, "storage_elements": elements, "left": left})
        rows.append([lfn, ", ".join(elements)])
        notes += [f"The file of {plain(lfn)} at {element} is left: {why}." for element, why in left.items()]
    return CommandOutput(removed, [Table(_REMOVED, rows), *notes], exit_code=Exit.REFUSED if notes else Exit.DONE)


def _put(options: Namespace, session: CommandSession) -> CommandOutput:
    uploaded = [session.server.upload(f"{API_V1}sandboxes/", path, expects="sandbox") for path in options.files]
    rows = [[str(path), each["sandbox"], each["size_bytes"]] for path, each in zip(options.files, uploaded)]
    return CommandOutput(uploaded, [Table(_UPLOADED, rows)])


COMMANDS = {"files": Command(_configure, _files)}
