#!/usr/bin/env python3
"""``wms-advertise``: counts the job-managers at a gateway, as ``ps`` shows them, and tells the server (SAM §3).

This one file is the whole program: it needs Python 3.9 or newer and nothing else, and is fetched from the server
(/api/gateway/wms_advertise.py). A job-manager is in one of five states; the three numbers that throttles compare are
those that submit, those that gather output, and all five together.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Exit codes, as those of the command ``wms``.
DONE, REFUSED, WRONG_USAGE, NOT_REACHABLE = range(4)

STATES = SUBMITTING, POLLING, UPDATING, CANCELLING, GATHERING = (
    *("submitting", "polling", "updating", "cancelling", "gathering"),
)
#: The program itself, or the script that an interpreter runs: not whoever reads a file of such a name.
_NAME = r"\S*?job[-_]?manager"
_INTERPRETER = r"\S*(?:perl|python|sh)[\d.]*\s+(?:-\S+\s+)*?"
# NB: what a lookahead has found is not tried again elsewhere: from each of a thousand names in one command line, the
# whole line would be searched for the word. The first name will do, for all words that follow another follow it.
_JOB_MANAGER = rf"^(?=({_NAME}|{_INTERPRETER}{_NAME}))\1.*"
_WORDS = {
    SUBMITTING: "submit(?:ting)?",
    POLLING: "poll(?:ing)?",
    UPDATING: "updat(?:e|ing)",
    CANCELLING: "cancel(?:l?ing)?",
    GATHERING: "gather(?:ing)?",
}
DEFAULT_PATTERNS = {state: rf"(?is){_JOB_MANAGER}(?<![a-z])(?:{word})(?![a-z])" for state, word in _WORDS.items()}
#: What the server may be told beside the counts, as options.
MAXIMA = ("max_matches", "max_submitting_jobs", "max_submitting_and_output_gathering_jobs", "max_jobs")

TIMEOUT_S = 60.0
#: By these names this program runs; another one that runs has the patterns in its command line too.
_OWN_NAME = re.compile(r"wms[-_]advertise\b")
_EPILOG = """\
Without --token-file the token is read from the environment, WMS_ADVERTISE_TOKEN; it is issued by an operator
(`manage.py site_token SITE --for advertise`). WMS_SERVER_URL takes the place of --server.

A pattern is a regular expression of Python, looked for in the command line of each process; a process counts for the
first state that fits, in this order: submitting, polling, updating, cancelling, gathering. By default they are programs
or scripts named job-manager (or jobmanager, job_manager) whose command line goes on with the word of the state. In a
file of patterns each line is `state = pattern`; lines that begin with # are skipped.

Exit codes: 0 done, 1 refused or ignored, 2 wrong usage, 3 server not reachable. With --every only a refusal ends it.
"""


class EndError(Exception):
    """What ends the program; the text is one sentence that says what is wrong and what to do."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


# ---- Counting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """One line of ``ps``."""

    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """Return all processes of the machine that this user may see.

    Raises:
        EndError: there is no way to see them.
    """
    return list(_of_proc() if Path("/proc/self/cmdline").exists() else _of_ps())


def _of_proc() -> Iterator[Process]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal():
            continue
        try:
            words = (directory / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            # The name of the program, in brackets before it, may itself hold blanks and brackets.
            after_name = (directory / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        command = b" ".join(words).decode(errors="replace")
        yield Process(pid=int(directory.name), parent=int(after_name[1]), command=command)


def _of_ps() -> Iterator[Process]:
    try:
        told = subprocess.run(
            ["ps", "-ww", "-A", "-o", "pid=,ppid=,args="],  # noqa: S607 - where it is differs
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EndError(f"The processes cannot be listed: {error}; install ps, or mount /proc.", WRONG_USAGE) from error
    for line in told.decode(errors="replace").splitlines():
        pid, parent, *command = line.split(None, 2)
        yield Process(pid=int(pid), parent=int(parent), command="".join(command))


def count(seen: Sequence[Process], patterns: Mapping[str, re.Pattern[str]], *, own_pid: int) -> Mapping[str, int]:
    """Return how many of the processes are in each state; each counts once.

    This program is none of them, nor is what started it: their command lines may hold the patterns themselves.
    """
    by_pid = {process.pid: process for process in seen}
    left_out = set()
    pid = own_pid
    while pid in by_pid and pid not in left_out:
        left_out.add(pid)
        pid = by_pid[pid].parent
    counted = Counter(
        _state_of(process.command, patterns)
        for process in seen
        if process.pid not in left_out and not _OWN_NAME.search(process.command)
    )
    return {state: counted[state] for state in STATES}


def _state_of(command: str, patterns: Mapping[str, re.Pattern[str]]) -> str:
    return next((state for state in STATES if patterns[state].search(command)), "")


def body_of(counted: Mapping[str, int], maxima: Mapping[str, int]) -> dict[str, int | float]:
    """Return what the server is told: SAM's three numbers, and the maxima that were named."""
    return {
        "current_submitting_jobs": counted[SUBMITTING],
        "current_gathering_output_jobs": counted[GATHERING],
        "current_jobs": sum(counted.values()),
        **maxima,
    }


# ---- Sending ---------------------------------------------------------------------------------------------------------


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirection: the token is for the server that was named, and for no other."""

    def redirect_request(self, *_arguments: object) -> None:
        """Return no other request."""


class Server:
    """Where one site advertises."""

    def __init__(self, url: str, *, site: str, token: str, ca: str | None) -> None:
        """Look at the address, and read the certificates.

        Raises:
            EndError: one of them is none.
        """
        self._url = _checked(url)
        self._address = f"{self._url}/api/sites/{quote(site, safe='')}/advertisements/"
        self._token = token
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise EndError(f"{ca} holds no certificates ({error}); name another file.", WRONG_USAGE) from error
        self._opener = build_opener(_NoRedirects, HTTPSHandler(context=context))

    def advertise(self, body: Mapping[str, int | float]) -> Mapping[str, Any]:
        """Return how the throttle stands after this.

        Raises:
            EndError: the server says no, or nothing.
        """
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "wms-advertise",
        }
        # The scheme is http or https: _checked has looked.
        request = Request(self._address, data=json.dumps(body).encode(), headers=headers, method="POST")  # noqa: S310
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return self._record(answer.read(), expects="accepting")
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read()) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            sentence = f"{self._url} does not answer ({reason}); try again, or check the address."
            raise EndError(sentence, NOT_REACHABLE) from error

    def _refusal(self, status: int, content: bytes) -> EndError:
        if status >= 500 or status == 429:
            return EndError(f"{self._url} is in trouble (status {status}); try again later.", NOT_REACHABLE)
        if status < 400:
            sentence = f"{self._url} sends elsewhere (status {status}); give the address of the server itself."
            return EndError(sentence, NOT_REACHABLE)
        return EndError(str(self._record(content, expects="detail")["detail"]), REFUSED)

    def _record(self, content: bytes, *, expects: str) -> Mapping[str, Any]:
        try:
            record = json.loads(content)
        except ValueError:
            record = None
        if not isinstance(record, dict) or expects not in record:
            sentence = f"{self._url} answers, but not as this system does; check the address."
            raise EndError(sentence, NOT_REACHABLE)
        return record


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.username or parts.query or parts.fragment:
        sentence = f'"{url}" is no address of a server; give one such as https://wms.example.org.'
        raise EndError(sentence, WRONG_USAGE)
    return url.rstrip("/")


# ---- The command line ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command and return its exit code."""
    # NB: the parser ends the process itself, with 2, when it does not understand.
    options = _parser().parse_args(arguments)
    try:
        patterns = _patterns(options)
        maxima = {name: getattr(options, name) for name in MAXIMA if getattr(options, name) is not None}
        if options.dry_run:
            counted = count(processes(), patterns, own_pid=os.getpid())
            sys.stdout.write(json.dumps({"counted": counted, "body": body_of(counted, maxima)}, indent=2) + "\n")
            return DONE
        url = options.server or environment.get("WMS_SERVER_URL", "")
        server = Server(url, site=options.site, token=_token(options, environment), ca=options.ca)
        return _run(server, options, patterns, maxima)
    except EndError as error:
        sys.stderr.write(f"wms-advertise: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return DONE


def _run(
    server: Server, options: argparse.Namespace, patterns: Mapping[str, re.Pattern[str]], maxima: Mapping[str, int]
) -> int:
    """Advertise once, or for ever; a server that is away for a while ends nothing."""
    sequence = 0
    due = time.monotonic()
    while True:
        # Of the wall clock, so that it goes on rising after a restart with nothing kept; and always by one at least.
        sequence = max(sequence + 1, time.time_ns() // 1_000_000)
        try:
            exit_code = _advertise_once(server, options, patterns, maxima, sequence)
        except EndError as error:
            if options.every is None or error.exit_code != NOT_REACHABLE:
                raise
            sys.stderr.write(f"wms-advertise: {error}\n")
            exit_code = NOT_REACHABLE
        if options.every is None:
            return exit_code
        sys.stdout.flush()
        due = max(due + options.every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _advertise_once(
    server: Server,
    options: argparse.Namespace,
    patterns: Mapping[str, re.Pattern[str]],
    maxima: Mapping[str, int],
    sequence: int,
) -> int:
    measured_at = time.monotonic()
    said = body_of(count(processes(), patterns, own_pid=os.getpid()), maxima)
    measured_s_ago = round(time.monotonic() - measured_at, 3)
    answer = server.advertise({**said, "sequence": sequence, "measured_s_ago": measured_s_ago})
    if answer.get("ignored"):
        sentence = "the server has a later advertisement and ignored this one; is the clock of this machine right?"
        sys.stderr.write(f"wms-advertise: {sentence}\n")
        return REFUSED
    accepting = "accepts" if answer["accepting"] else "accepts no"
    sys.stdout.write(
        f"{options.site}: {said['current_submitting_jobs']} submitting, "
        f"{said['current_gathering_output_jobs']} gathering output, {said['current_jobs']} in all; "
        f"{accepting} matches (throttle: {answer.get('policy')}).\n"
    )
    return DONE


def _parser() -> argparse.ArgumentParser:
    about = "Count the job-managers at this gateway, and advertise them."
    parser = argparse.ArgumentParser(
        prog="wms-advertise",
        description=about,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("site", metavar="SITE", help="its name, as the server has it")
    parser.add_argument("--server", metavar="URL", help="such as https://wms.example.org")
    parser.add_argument("--token-file", metavar="FILE", help="holds the token; only its owner may read it (mode 0600)")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust in place of the system's")
    parser.add_argument("--every", type=_seconds, metavar="S", help="again and again, every so many seconds")
    parser.add_argument("--dry-run", action="store_true", help="print what was counted and would be sent; send nothing")
    parser.add_argument("--patterns", metavar="FILE", help="patterns of the states, in place of the default ones")
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE=PATTERN", help="one of them; may be repeated"
    )
    for name in MAXIMA:
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=_whole, metavar="N", help="advertised beside the counts"
        )
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds <= 86_400:
        raise ValueError
    return seconds


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _token(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Return the token, from a file that nobody else can read or from the environment; never from the command line."""
    if options.token_file is None:
        token = environment.get("WMS_ADVERTISE_TOKEN", "").strip()
        if not token:
            raise EndError("There is no token; use --token-file, or set WMS_ADVERTISE_TOKEN.", WRONG_USAGE)
    else:
        file = Path(options.token_file)
        try:
            with file.open(encoding="ascii") as opened:
                if os.fstat(opened.fileno()).st_mode & 0o077:
                    raise EndError(f"Others may read {file}; run `chmod 600 {file}` first.", WRONG_USAGE)
                token = opened.read().strip()
        except (OSError, ValueError) as error:
            raise EndError(
                f"The token cannot be read from {file} ({error}); name another file.", WRONG_USAGE
            ) from error
    if not re.fullmatch(r"[!-~]+", token):
        raise EndError("The token must be one word of printable ASCII; copy it again.", WRONG_USAGE)
    return token


def _patterns(options: argparse.Namespace) -> Mapping[str, re.Pattern[str]]:
    written = dict(DEFAULT_PATTERNS)
    lines: list[str] = []
    if options.patterns is not None:
        try:
            lines = Path(options.patterns).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            sentence = f"The patterns cannot be read from {options.patterns} ({error}); name another file."
            raise EndError(sentence, WRONG_USAGE) from error
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for line in [*kept, *options.state]:
        state, is_given, pattern = (part.strip() for part in line.partition("="))
        if state not in STATES or not is_given or not pattern:
            near = get_close_matches(state, STATES, n=1)
            hint = f' Did you mean "{near[0]}"?' if near and near[0] != state else ""
            raise EndError(f'"{line}" is not STATE=PATTERN, of one of {", ".join(STATES)}.{hint}', WRONG_USAGE)
        written[state] = pattern
    try:
        return {state: re.compile(pattern) for state, pattern in written.items()}
    except re.error as error:
        raise EndError(f"A pattern is no regular expression ({error}); correct it.", WRONG_USAGE) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
