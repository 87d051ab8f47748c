"""``wms-advertise``: counts the job-managers on a gateway, as ``ps`` shows them, and advertises the numbers (SAM §3).

A gateway downloads it as one file, with the modules of ``wms.wire`` that it uses (``resources/api/gateway.py``); it
needs only Python 3.9 or newer. A job-manager is in one of five states, or idle between two of them; throttles
compare three numbers: those that submit, those that gather output, and all together.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import ssl
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from wms.wire.http import HttpClient, in_clear, is_in_clear, is_server_address
from wms.wire.protocol import API_V1

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Exit codes, as of the command ``wms``.
DONE, REFUSED, WRONG_USAGE, NOT_REACHABLE = range(4)

STATES = SUBMITTING, POLLING, UPDATING, CANCELLING, GATHERING, IDLE = (
    *("submitting", "polling", "updating", "cancelling", "gathering", "idle"),
)
#: The program itself, or the script that an interpreter runs; not a program that reads a file of such a name.
_NAME = r"\S*?job[-_]?manager"
_INTERPRETER = r"\S*(?:perl|python|sh)[\d.]*\s+(?:-\S+\s+)*?"
# NB: the result of a lookahead is not tried again elsewhere: otherwise, from each of a thousand names in one command
# line, the whole line would be searched for the word. The first name suffices, because all words come after it.
_JOB_MANAGER = rf"^(?=({_NAME}|{_INTERPRETER}{_NAME}))\1.*"
_WORDS = {
    SUBMITTING: "submit(?:ting)?",
    POLLING: "poll(?:ing)?",
    UPDATING: "updat(?:e|ing)",
    CANCELLING: "cancel(?:l?ing)?",
    GATHERING: "gather(?:ing)?",
}
JOB_MANAGERS = {state: rf"(?is){_JOB_MANAGER}(?<![a-z])(?:{word})(?![a-z])" for state, word in _WORDS.items()}
#: A job-manager without the word of a state is one of the current jobs.
JOB_MANAGERS[IDLE] = rf"(?is){_JOB_MANAGER}"
#: The processes of a pilot, one per job, have its stamp in their command lines: they count once.
_STAMP = r".*\s--stamp\s(?P<job>[0-9a-f]{32})(?!\S)"
_PILOTS = {
    SUBMITTING: rf"(?s)^\S*python[\d.]*\s-I\s-c\s{_STAMP}",
    IDLE: rf"(?s)^\S*python[\d.]*\s-I\s\S*agent-[0-9a-f]+(?:\.pyz)?\s{_STAMP}",
}
#: By the type of computing element; jobs of Slurm are visible only on their nodes.
PATTERNS = {
    "job-manager": JOB_MANAGERS,
    "local": _PILOTS,
    "ssh": _PILOTS,
    "slurm": {
        SUBMITTING: r"^\S*\bsbatch(?!\S)",
        CANCELLING: r"^\S*\bscancel(?!\S)",
        IDLE: r"^slurmstepd:\s\[(?P<job>\d+)",
    },
    "htcondor": {
        SUBMITTING: r"^\S*\bcondor_submit(?!\S)",
        CANCELLING: r"^\S*\bcondor_rm(?!\S)",
        GATHERING: r"^\S*\bcondor_transfer_data(?!\S)",
        IDLE: r"^\S*\bcondor_shadow(?!\S)",
    },
}
JOB = "job"
#: Maxima that can be advertised beside the counts, as options.
MAXIMA = ("max_matches", "max_submitting_jobs", "max_submitting_and_output_gathering_jobs", "max_jobs")

#: Timeout of a request to the server, in seconds.
TIMEOUT_S = 60.0
#: Largest sequence that the server accepts.
MAX_SEQUENCE = 2**63 - 1
#: Names of this program; another run of it has the patterns in its command line too.
_OWN_NAME = re.compile(r"wms[-_]advertise\b")
_EPILOG = """\
Without --token-file the token is read from the environment, WMS_ADVERTISE_TOKEN; it is issued by an operator
(`wms-server site_token SITE --for advertise`). WMS_SERVER_URL takes the place of --server.

A pattern is a regular expression of Python, looked for in the command line of each process; a process counts for the
first state that fits, in this order: submitting, polling, updating, cancelling, gathering, idle. Processes for which
the group `job` of a pattern, (?P<job>...), has the same text count once. By default the patterns fit programs or
scripts named job-manager (or jobmanager, job_manager) whose command line goes on with the word of the state; without
such a word they are idle, and count among the current jobs only. --ce-type names others: of pilots on this host (local,
ssh), of slurm (sbatch and scancel here; running jobs are seen at their nodes only), and of htcondor (at the schedd).
In a file of patterns each line is `state = pattern`; lines that begin with # are skipped. If a pattern fits no
process, one warning is written to standard error.

The advertisements of the gateways of a site are added up; each gateway needs its own name, by default that of the host.
Sequences follow the answers of the server, not the clock of this machine.

Exit codes: 0 done, 1 refused or ignored, 2 wrong usage, 3 server not reachable. With --every only a refusal ends it.
"""


class EndError(Exception):
    """The reason why the program ends; the text is one sentence with the fault and the remedy."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


# ---- Counting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdvertisedProcess:
    """One line of ``ps``."""

    pid: int
    parent: int
    command: str


def processes() -> list[AdvertisedProcess]:
    """Return all processes of the machine that this user may see.

    Raises:
        EndError: they cannot be listed.
    """
    return list(_of_proc() if Path("/proc/self/cmdline").exists() else _of_ps())


def _of_proc() -> Iterator[AdvertisedProcess]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal():
            continue
        try:
            words = (directory / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            # The name of the program, in brackets before the other fields, may contain blanks and brackets.
            after_name = (directory / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        command = b" ".join(words).decode(errors="replace")
        yield AdvertisedProcess(pid=int(directory.name), parent=int(after_name[1]), command=command)


def _of_ps() -> Iterator[AdvertisedProcess]:
    try:
        listing = subprocess.run(
            ["ps", "-ww", "-A", "-o", "pid=,ppid=,args="],  # noqa: S607 - where it is differs
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EndError(f"The processes cannot be listed: {error}; install ps, or mount /proc.", WRONG_USAGE) from error
    for line in listing.decode(errors="replace").splitlines():
        pid, parent, *command = line.split(None, 2)
        yield AdvertisedProcess(pid=int(pid), parent=int(parent), command="".join(command))


def job_managers(seen: Sequence[AdvertisedProcess], *, own_pid: int) -> list[str]:
    """Return the command lines of all processes except this program and its ancestors.

    Their command lines may contain the patterns, as may those of other runs of this program.
    """
    by_pid = {process.pid: process for process in seen}
    left_out = set()
    pid = own_pid
    while pid in by_pid and pid not in left_out:
        left_out.add(pid)
        pid = by_pid[pid].parent
    return [
        process.command for process in seen if process.pid not in left_out and not _OWN_NAME.search(process.command)
    ]


def count(
    seen: Sequence[AdvertisedProcess], patterns: Mapping[str, re.Pattern[str]], *, own_pid: int
) -> Mapping[str, int]:
    """Return the number of processes in each state; each process counts once, and so does each job."""
    jobs_in: dict[str, list[str | None]] = {state: [] for state in STATES}
    for command in job_managers(seen, own_pid=own_pid):
        for state in STATES:
            match = patterns[state].search(command) if state in patterns else None
            if match is not None:
                jobs_in[state].append(match.groupdict().get(JOB))
                break
    counted: dict[str, int] = {}
    known: set[str] = set()
    for state, jobs in jobs_in.items():
        named = {job for job in jobs if job is not None} - known
        known |= named
        counted[state] = jobs.count(None) + len(named)
    return counted


def unmatched(seen: Sequence[AdvertisedProcess], patterns: Mapping[str, re.Pattern[str]], *, own_pid: int) -> list[str]:
    """Return the states whose pattern matches no process."""
    commands = job_managers(seen, own_pid=own_pid)
    return [state for state, pattern in patterns.items() if not any(map(pattern.search, commands))]


class Warnings:
    """Warns once of patterns that match no process.

    Those of --ce-type count as one: no submission at the moment is normal, no process at all may be a mistake.
    """

    def __init__(self, patterns: Mapping[str, re.Pattern[str]], chosen_states: Sequence[str]) -> None:
        """Store the patterns, and the states of those given by the user."""
        self._patterns = patterns
        self._chosen_states = set(chosen_states)
        self._has_warned = False

    def look(self, seen: Sequence[AdvertisedProcess]) -> None:
        """Write the warnings to standard error, the first time."""
        if self._has_warned:
            return
        self._has_warned = True
        vain = unmatched(seen, self._patterns, own_pid=os.getpid())
        for state in vain:
            if state in self._chosen_states:
                pattern = self._patterns[state].pattern
                _warn(f"the pattern of {state}, {pattern}, matches no process; check it, unless none runs now")
        shipped = [state for state in self._patterns if state not in self._chosen_states]
        if shipped and set(shipped) <= set(vain):
            names = ", ".join(shipped)
            _warn(f"the patterns of {names} match no process; if some run, give others by --ce-type or --state")


def _warn(sentence: str) -> None:
    sys.stderr.write(f"wms-advertise: warning: {sentence}.\n")


def body_of(counted: Mapping[str, int], maxima: Mapping[str, int], *, gateway: str = "") -> dict[str, str | int]:
    """Return the body of an advertisement: SAM's three numbers, the given maxima, and the name of the gateway."""
    return {
        **({"gateway": gateway} if gateway else {}),
        "current_submitting_jobs": counted[SUBMITTING],
        "current_gathering_output_jobs": counted[GATHERING],
        "current_jobs": sum(counted.values()),
        **maxima,
    }


# ---- Sending ---------------------------------------------------------------------------------------------------------


class AdvertisementServer:
    """The address where one site advertises."""

    def __init__(self, url: str, *, site: str, token: str, ca: str | None, insecure: bool) -> None:
        """Check the address, and read the certificates.

        Raises:
            EndError: one of them is not valid.
        """
        if not is_server_address(url):
            sentence = f'"{url}" is not an address of a server; give one such as https://wms.example.org.'
            raise EndError(sentence, WRONG_USAGE)
        if not insecure and is_in_clear(url):
            raise EndError(in_clear(url), WRONG_USAGE)
        self._url = url.rstrip("/")
        self._path = f"{API_V1}sites/{quote(site, safe='')}/advertisements/"
        self._token = token
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise EndError(f"{ca} holds no certificates ({error}); name another file.", WRONG_USAGE) from error
        self._http = HttpClient(self._url, user_agent="wms-advertise", timeout_s=TIMEOUT_S, tls=context)

    def advertise(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Send an advertisement, and return the state of the throttle after it.

        Raises:
            EndError: the server refuses it, or does not answer.
        """
        sent = json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Content-Length": str(len(sent)),
            "Accept": "application/json",
            "Connection": "close",
        }
        try:
            with closing(self._http.send("POST", self._path, headers=headers, body=lambda: [sent])) as exchange:
                content = exchange.read()
        except (OSError, HTTPException) as error:
            sentence = f"{self._url} does not answer ({error.__cause__ or error}); try again, or check the address."
            raise EndError(sentence, NOT_REACHABLE) from error
        if not exchange.is_successful:
            raise self._refusal(exchange.response.status, content)
        return self._record(content, expects="accepting")

    def _refusal(self, status: int, content: bytes) -> EndError:
        if status >= 500 or status == 429:
            return EndError(f"{self._url} failed (status {status}); try again later.", NOT_REACHABLE)
        if status < 400:
            sentence = f"{self._url} redirects (status {status}); give the address of the server itself."
            return EndError(sentence, NOT_REACHABLE)
        return EndError(str(self._record(content, expects="detail")["detail"]), REFUSED)

    def _record(self, content: bytes, *, expects: str) -> Mapping[str, object]:
        try:
            record = json.loads(content)
        except ValueError:
            record = None
        if not isinstance(record, dict) or expects not in record:
            sentence = f"{self._url} is not a server of this system; check the address."
            raise EndError(sentence, NOT_REACHABLE)
        return record


# ---- The command line ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command and return its exit code."""
    # NB: the parser ends the process with exit code 2 on wrong usage.
    options = _parser().parse_args(arguments)
    try:
        patterns, chosen_states = _patterns(options)
        gateway = Gateway(
            site=options.site,
            patterns=patterns,
            warnings=Warnings(patterns, chosen_states),
            maxima={name: getattr(options, name) for name in MAXIMA if getattr(options, name) is not None},
            name=platform.node() if options.gateway is None else options.gateway,
        )
        if options.dry_run:
            seen = processes()
            counted = gateway.counted(seen)
            sys.stdout.write(json.dumps({"counted": counted, "body": gateway.body(counted)}, indent=2) + "\n")
            gateway.warnings.look(seen)
            return DONE
        url = options.server or environment.get("WMS_SERVER_URL", "")
        token = _token(options, environment)
        server = AdvertisementServer(url, site=options.site, token=token, ca=options.ca, insecure=options.insecure)
        return _run(server, gateway, every=options.every)
    except EndError as error:
        sys.stderr.write(f"wms-advertise: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return DONE


@dataclass(frozen=True)
class Gateway:
    """The settings of this gateway: its site, name, patterns and maxima."""

    site: str
    patterns: Mapping[str, re.Pattern[str]]
    warnings: Warnings
    maxima: Mapping[str, int]
    #: Empty: no name is sent.
    name: str

    def counted(self, seen: Sequence[AdvertisedProcess]) -> Mapping[str, int]:
        """Return the number of job-managers in each state."""
        return count(seen, self.patterns, own_pid=os.getpid())

    def body(self, counted: Mapping[str, int]) -> dict[str, str | int]:
        """Return the body of an advertisement with these numbers."""
        return body_of(counted, self.maxima, gateway=self.name)


def _run(server: AdvertisementServer, gateway: Gateway, *, every: float | None) -> int:
    """Advertise once, or repeatedly; a temporary failure of the server does not end the program."""
    sequence, is_known = 0, False
    due = time.monotonic()
    while True:
        try:
            exit_code, sequence = _advertise_once(server, gateway, sequence + 1, is_known=is_known)
            is_known = is_known or exit_code == DONE
        except EndError as error:
            if every is None or error.exit_code != NOT_REACHABLE:
                raise
            sys.stderr.write(f"wms-advertise: {error}\n")
            # The advertisement may have arrived all the same.
            exit_code, sequence = NOT_REACHABLE, sequence + 1
        if every is None:
            return exit_code
        sys.stdout.flush()
        due = max(due + every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _advertise_once(server: AdvertisementServer, gateway: Gateway, sequence: int, *, is_known: bool) -> tuple[int, int]:
    """Advertise the current numbers; return the exit code and the last sequence that was sent.

    The sequence does not come from a clock, because one ahead of time would lock this gateway out: after a restart the
    server returns the last sequence, and a new count gets the next one. If the server has accepted an advertisement of
    this process (*is_known*), a later sequence comes from another program.
    """
    body, answer = _sent(server, gateway, sequence)
    last = answer.get("last_sequence")
    if answer.get("ignored") and isinstance(last, int) and sequence <= last < MAX_SEQUENCE:
        if is_known:
            raise EndError(
                f'Another program advertises as the gateway "{gateway.name}" of {gateway.site}, and its numbers '
                "replace these; stop one of them, or give each a name of its own by --gateway.",
                REFUSED,
            )
        sequence = last + 1
        body, answer = _sent(server, gateway, sequence)
    if answer.get("ignored"):
        why = answer.get("why_ignored") or "It was not newer than the last accepted one."
        sys.stderr.write(f"wms-advertise: the server ignored this advertisement. {why}\n")
        return REFUSED, sequence
    accepting = "accepts" if answer["accepting"] else "accepts no"
    sys.stdout.write(
        f"{gateway.site}: {body['current_submitting_jobs']} submitting, "
        f"{body['current_gathering_output_jobs']} gathering output, {body['current_jobs']} in all; "
        f"{accepting} matches (throttle: {answer.get('policy')}).\n"
    )
    return DONE, sequence


def _sent(
    server: AdvertisementServer, gateway: Gateway, sequence: int
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Count, advertise, and return the body and the response."""
    measured_at = time.monotonic()
    seen = processes()
    body = gateway.body(gateway.counted(seen))
    measured_s_ago = round(time.monotonic() - measured_at, 3)
    answer = server.advertise({**body, "sequence": sequence, "measured_s_ago": measured_s_ago})
    gateway.warnings.look(seen)
    return body, answer


def _parser() -> argparse.ArgumentParser:
    about = "Count the job-managers at this gateway, and advertise them."
    parser = argparse.ArgumentParser(
        prog="wms-advertise",
        description=about,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("site", metavar="SITE", help="name of the site, as configured on the server")
    parser.add_argument("--server", metavar="URL", help="such as https://wms.example.org")
    parser.add_argument(
        "--insecure", action="store_true", help="send the token unencrypted to an http:// address of another machine"
    )
    parser.add_argument("--token-file", metavar="FILE", help="holds the token; only its owner may read it (mode 0600)")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust in place of the system's")
    parser.add_argument("--every", type=_seconds, metavar="S", help="repeat every so many seconds")
    parser.add_argument("--dry-run", action="store_true", help="print what was counted and would be sent; send nothing")
    parser.add_argument(
        "--gateway", metavar="NAME", help="name of this gateway, unique at the site (default: this host)"
    )
    parser.add_argument(
        "--ce-type",
        choices=PATTERNS,
        default="job-manager",
        help="computing element whose patterns are the defaults (%(default)s)",
    )
    parser.add_argument(
        "--patterns", metavar="FILE", help="file of patterns, which replace those of --ce-type state by state"
    )
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE=PATTERN", help="pattern of one state; may be repeated"
    )
    for name in MAXIMA:
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=_whole, metavar="N", help="maximum, advertised with the counts"
        )
    return parser


# NB: of a ValueError the parser would print the name of the function.
def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return seconds


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _token(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Return the token, from a file that nobody else can read or from the environment, never from the command line."""
    if options.token_file is None:
        token = environment.get("WMS_ADVERTISE_TOKEN", "").strip()
        if not token:
            raise EndError("A token is required; use --token-file, or set WMS_ADVERTISE_TOKEN.", WRONG_USAGE)
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


def _patterns(options: argparse.Namespace) -> tuple[Mapping[str, re.Pattern[str]], Sequence[str]]:
    """Return the patterns, and the states of those given by the user."""
    written = dict(PATTERNS[options.ce_type])
    lines: list[str] = []
    if options.patterns is not None:
        try:
            lines = Path(options.patterns).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            sentence = f"The patterns cannot be read from {options.patterns} ({error}); name another file."
            raise EndError(sentence, WRONG_USAGE) from error
    pattern_lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    chosen_states = []
    for line in [*pattern_lines, *options.state]:
        state, separator, pattern = (part.strip() for part in line.partition("="))
        if state not in STATES or not separator or not pattern:
            near = get_close_matches(state, STATES, n=1)
            hint = f' Did you mean "{near[0]}"?' if near and near[0] != state else ""
            raise EndError(f'"{line}" is not STATE=PATTERN, of one of {", ".join(STATES)}.{hint}', WRONG_USAGE)
        written[state] = pattern
        chosen_states.append(state)
    try:
        return {state: re.compile(pattern) for state, pattern in written.items()}, chosen_states
    except re.error as error:
        raise EndError(f"A pattern is not a regular expression ({error}); correct it.", WRONG_USAGE) from error


if __name__ == "__main__":
    # As after Ctrl-C: systemd and batch systems stop a gateway by this signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:], os.environ))
