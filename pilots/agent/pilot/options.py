"""The command line of the agent; it has no token, because every user of a node can read command lines."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pilots.agent.node.site_environment import best_scratch, scratch_directories
from pilots.agent.pilot.drain import DRAIN_FILE
from wms.wire.amounts import AMOUNTS, StatedAmounts
from wms.wire.http import in_clear, is_in_clear
from wms.wire.protocol import PROTOCOL
from wms.wire.version import __version__

#: Obeyed even if the other arguments are wrong; see ``__main__``.
REMOVE_PROGRAM = "--remove-program"


@dataclass(frozen=True)
class _OtherOptions:
    # Apart, because fields without a default must come first, and Python 3.9 has none that are given by name only.

    server: str
    token_file: str
    #: Descriptor instead of token_file; None: the file is used.
    token_fd: int | None
    #: The file with the token, if it stays on the node; see ``__main__``.
    token_left: Path | None
    remove_token_file: bool
    ca: Path | None
    hide: tuple[Path, ...]
    show: tuple[Path, ...]
    vo: str
    site: str
    ce: str
    queue: str
    setup: str
    stamp: str
    work_dir: Path
    max_jobs: int | None
    max_idle_s: float
    max_wait_s: float
    patience_s: float
    grace_s: float
    stop_within_s: float
    drain_file: Path
    cpu_time_s: int | None
    speed: float | None
    node_processors: int | None
    node_memory_mb: int | None
    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    required_tags: tuple[str, ...]


@dataclass(frozen=True)
class Options(StatedAmounts, _OtherOptions):
    """Options of the command line; None: taken from the server's configuration or measured."""


#: Amounts of which every slot has some.
_NEVER_NONE = frozenset({"processors", "memory_mb", "wall_time_s"})


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Return the options; if they are wrong, print a sentence and exit with 2."""
    parser = _parser()
    values = vars(parser.parse_args(arguments))
    if not values["insecure"] and is_in_clear(values["server"]):
        parser.error(in_clear(values["server"]))
    del values["remove_program"], values["insecure"]
    work_dir = values["work_dir"] or best_scratch(scratch_directories(os.environ))
    drain_file = values["drain_file"] or work_dir / DRAIN_FILE
    tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Options(**{**values, **tuples, "work_dir": work_dir, "drain_file": drain_file, "token_left": None})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent.pyz",
        description="A pilot: checks this node, then runs one job after another for the server, while time is left.",
        epilog="Exit codes: 0 done, 1 the node or the pilot was refused, 2 wrong usage, 3 the server is not reachable.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"wms pilot agent {__version__}, protocol {PROTOCOL}")
    parser.add_argument("--server", type=_url, required=True, metavar="URL", help="such as https://wms.example.org")
    parser.add_argument(
        "--insecure", action="store_true", help="send the token unencrypted to an http:// address of another machine"
    )
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument(
        "--token-file",
        default="",
        metavar="PATH",
        help='file of mode 0600 with the token of a pilot or for registration in its first line; "-": standard input',
    )
    token.add_argument(
        "--token-fd", type=_count, metavar="N", help="open descriptor with such a line, instead of a file"
    )
    parser.add_argument(
        "--remove-token-file",
        action="store_true",
        help="remove the token file after reading it, so that no job of this user can read it",
    )
    parser.add_argument(REMOVE_PROGRAM, action="store_true", help="remove the file of the agent itself when it ends")
    parser.add_argument("--ca", type=Path, metavar="PATH", help="certificates to trust instead of the system's")
    paths = {
        "--hide": "hidden from payloads that have a mount namespace; may be repeated",
        "--show": "visible to payloads although it is in /tmp, such as software of the site; may be repeated",
    }
    for name, text in paths.items():
        parser.add_argument(name, type=Path, action="append", default=[], metavar="PATH", help=text)
    _add_place(
        parser.add_argument_group("place: required for registration; a pilot started by hand names it in its offers")
    )
    _add_work(parser.add_argument_group("work"))
    _add_offer(parser.add_argument_group("offer, instead of the server's configuration of the queue"))
    _add_node(parser.add_argument_group("node, instead of measured values"))
    return parser


def _add_place(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--vo", default="", help="virtual organisation whose jobs are run")
    group.add_argument("--site", default="")
    group.add_argument("--ce", default="", help="computing element")
    group.add_argument("--queue", default="")
    group.add_argument(
        "--setup", default="", metavar="NAME", help="setup of the pilot, one of the VO's; default: the server's choice"
    )
    group.add_argument("--stamp", default="", help="name of this pilot in its batch system")


def _add_work(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--work-dir", type=Path, metavar="DIR", help="default: the scratch directory of the batch system, else TMPDIR"
    )
    group.add_argument("--max-jobs", type=_positive, metavar="N", help="end after so many jobs; default: no limit")
    for name, default_s, text in (
        ("--max-idle-s", 300.0, "end after this time without a job"),
        ("--max-wait-s", 120.0, "longest wait between two matches"),
        ("--patience-s", 300.0, "end after this time without an answer of the server"),
        ("--grace-s", 5.0, "from SIGTERM to SIGKILL for a payload"),
        (
            "--stop-within-s",
            20.0,
            (
                "time for jobs to end after SIGTERM; then they are handed back. A batch system must wait 5 s longer "
                "before it sends SIGKILL"
            ),
        ),
    ):
        group.add_argument(name, type=_seconds, default=default_s, metavar="S", help=f"{text} (%(default)s)")
    group.add_argument(
        "--drain-file",
        type=Path,
        metavar="PATH",
        help=f"when this file appears, take no more jobs and end after the running ones; default: {DRAIN_FILE} in "
        "the work directory",
    )


def _add_offer(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--cpu-time-s", type=_positive, metavar="S", help="reference-core seconds, per core")
    for amount in AMOUNTS:
        allowed = _positive if amount.name in _NEVER_NONE else _count
        name, unit = amount.name.replace("_", "-"), amount.unit.upper() or "N"
        group.add_argument(f"--{name}", type=allowed, metavar=unit, help=amount.help_of_slot)
    group.add_argument(
        "--platform",
        dest="platforms",
        action="append",
        default=[],
        metavar="NAME",
        help="platform, instead of the detected one; may be repeated, then the first is reported as the node's",
    )
    group.add_argument("--tag", dest="tags", action="append", default=[], metavar="NAME", help="may be repeated")
    group.add_argument(
        "--required-tag", dest="required_tags", action="append", default=[], metavar="NAME", help="may be repeated"
    )


def _add_node(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--node-processors",
        type=_positive,
        metavar="N",
        help="cores of the node; no offer has more. Default: the CPU affinity, limited by the control group's quota",
    )
    group.add_argument(
        "--node-memory-mb",
        type=_positive,
        metavar="MB",
        help="memory of the node; no offer has more. Default: the kernel's figure, limited by the control group",
    )
    group.add_argument(
        "--speed",
        type=_factor,
        metavar="X",
        help="speed of a core, relative to the reference core; default: measured by a benchmark",
    )


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and not (parts.query or parts.fragment)
        # Without characters that cannot be sent as they are.
        usable = usable and parts.path.isascii() and text.isprintable() and " " not in text
        if parts.hostname and not parts.hostname.isascii():
            parts.hostname.encode("idna")
        known_port = parts.port != 0
    except ValueError:
        usable = known_port = False
    if not usable or not known_port or parts.username is not None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as https://wms.example.org")
    return text


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _count(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


# NB: for a ValueError argparse would print the name of the function.
def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error


def _seconds(text: str) -> float:
    number = _real(text)
    if not 0 <= number <= 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return number


def _factor(text: str) -> float:
    number = _real(text)
    if not 0 < number <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
