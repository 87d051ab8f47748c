"""``wms``: parses the command line, runs one command, and prints its output."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from importlib import import_module

from .amounts import OFFERED_AMOUNTS
from .errors import ClientError, Exit
from .printing import plain
from .version import __version__

_EPILOG = """\
WMS_SERVER_URL and WMS_TOKEN override what `wms login` has stored.
Exit codes: 0 done, 1 refused, 2 wrong usage, 3 server not reachable.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    # NB: on a wrong command line the parser ends the process itself, with 2.
    options = _parser().parse_args(arguments)
    try:
        # Imported here, so that --help and --version start without it.
        output = getattr(import_module(".commands", __package__), options.run)(options, os.environ)
    except ClientError as error:
        sys.stderr.write((json.dumps(error.as_json()) if options.json else f"wms: {plain(error)}") + "\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return Exit.WRONG_USAGE
    lines = [json.dumps(output.answer, indent=2)] if options.json else output.lines
    sys.stdout.write("\n".join(lines) + "\n")
    return Exit.DONE


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="wms", description="Jobs, from the command line.", epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"wms {__version__}")
    everywhere = ArgumentParser(add_help=False)
    everywhere.add_argument("--json", action="store_true", help="print the server's answer as it is")
    named = parser.add_subparsers(required=True, metavar="COMMAND")

    login = named.add_parser("login", parents=[everywhere], help="log in, and store the token for later commands")
    login.add_argument("--server", metavar="URL", help="address of the server; left out: prompt")
    login.add_argument("--user", metavar="NAME", help="user name; left out: prompt, as always for the password")
    login.set_defaults(run="login")

    explain = named.add_parser("explain", parents=[everywhere], help="explain why a job waits")
    explain.add_argument("job", type=_job_id, metavar="JOB", help="id of the job")
    explain.add_argument("--site", metavar="S", help="only the queues of this site")
    explain.set_defaults(run="explain")

    about = "show which jobs an offer would get, and why not the others"
    match_test = named.add_parser("match-test", parents=[everywhere], help=about, description=f"{about}; for managers")
    _add_offer(match_test)
    match_test.set_defaults(run="match_test")
    return parser


def _add_offer(parser: ArgumentParser) -> None:
    """Add the fields of an offer; the server has defaults for those left out (see /api/v1/docs/)."""
    parser.add_argument(
        "--cpu-time-s", type=_whole_number, required=True, metavar="S", help="reference-core seconds per core"
    )
    for name in ("vo", "setup", "site", "ce", "queue", "grid-middleware"):
        parser.add_argument(f"--{name}", metavar="NAME")
    for amount in OFFERED_AMOUNTS:
        name, unit = amount.name.replace("_", "-"), amount.unit.upper() or "N"
        parser.add_argument(f"--{name}", type=_whole_number, metavar=unit, help=amount.help_of_slot)
    # Left out it is not sent, rather than False.
    parser.add_argument("--container", action="store_const", const=True, help="the slot can run containers")
    for name in ("platform", "tag", "required-tag", "job-type", "submit-pool"):
        several = f"{name.replace('-', '_')}s"
        parser.add_argument(f"--{name}", action="append", dest=several, metavar="NAME", help="may be repeated")
    parser.add_argument("--group", metavar="NAME", help="group of a private pilot")
    parser.add_argument("--owner", metavar="NAME", help="owner of a private pilot whose group does not share jobs")


def _job_id(text: str) -> int:
    # NB: for a ValueError the parser would print the name of this function.
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not the id of a job; give its number, such as 69.")
    return int(text)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number; give one such as 86400.")
    return int(text)
