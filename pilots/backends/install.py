"""The installer of the pilot agent: fetches it, verifies it and becomes it; its text is part of the pilot's script.

Its arguments are ``FILE --server URL …``: FILE is the path for the agent, the rest are the agent's arguments. It needs
only Python 3.9, as the agent does, and the HTTP client, whose text is in the script too (``script.py``). The SHA-256 of
the agent comes with the agent: the server may have been upgraded, with a new agent, while the pilot waited in a batch
queue.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import NoReturn

from wms.wire.http import HttpClient, in_clear, is_in_clear, is_server_address

REFUSED, WRONG_USAGE, UNREACHABLE = 1, 2, 3
#: Path of the agent at the server.
AGENT = "/api/v1/pilots/agent.pyz"
#: Timeout of one network operation.
TIMEOUT_S = 60.0
#: Seconds between two tries: the first wait, and the longest.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
#: Status codes after which a retry helps: overload, restart, or a proxy that does not reach the server.
TROUBLE = frozenset({429, *range(500, 600)})


class InstallationError(Exception):
    """The agent cannot be started; the sentence is the reason."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class StatusError(Exception):
    """The server has answered with a status other than 2xx."""

    def __init__(self, status: int, location: str) -> None:
        remedy = f" and redirects to {location[:200]}; name the server itself" if status in range(300, 400) else ""
        super().__init__(f"the server answered {status}{remedy}")
        self.status = status


def main(arguments: Sequence[str]) -> int:
    """Become the agent; return only after a failure, with the exit code that the agent would have."""
    file = Path(arguments[0])
    try:
        become_agent(file, list(arguments[1:]))
    except InstallationError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    finally:  # also after a wrong option; a running agent removes itself
        file.unlink(missing_ok=True)


def become_agent(file: Path, arguments: list[str]) -> NoReturn:
    """Fetch the agent into *file* and replace this program by it, with *arguments*.

    Raises:
        InstallationError: it failed.
    """
    options = parse(arguments)
    if options.remove_token_file and options.token_file not in {"", "-"} and not Path(options.token_file).exists():
        # A batch system has restarted the pilot: its secret is used already.
        raise InstallationError(WRONG_USAGE, f"The token file {options.token_file} does not exist; name another one.")
    if not is_server_address(options.server):
        raise InstallationError(WRONG_USAGE, "Give the address of the server: --server https://wms.example.org")
    if not options.insecure and is_in_clear(options.server):
        raise InstallationError(WRONG_USAGE, in_clear(options.server))
    try:
        trusted = certificates_of(options.ca)
    except OSError as error:
        raise InstallationError(WRONG_USAGE, f"The certificates {options.ca} cannot be read: {error}.") from error
    server = options.server.rstrip("/")
    http = HttpClient(server, user_agent="wms-pilot-installer", timeout_s=TIMEOUT_S, tls=trusted)
    try:
        program = fetch(http, patience_s=options.patience_s)
    except StatusError as error:
        sentence = f"There is no pilot agent at {server}{AGENT}: {error}."
        raise InstallationError(UNREACHABLE if error.status in TROUBLE else REFUSED, sentence) from error
    except (OSError, HTTPException, ValueError) as error:
        sentence = f"The pilot agent could not be fetched from {server}{AGENT}: {sentence_of(error)}."
        raise InstallationError(UNREACHABLE, sentence) from error
    try:
        file.write_bytes(program)
        # Without PATH, as in jobs of HTCondor, Python does not know its own path.
        python = sys.executable or str(Path("/proc/self/exe").readlink())
        os.execv(python, [python, "-I", str(file), "--remove-program", *arguments])  # noqa: S606 - this program itself
    except OSError as error:
        sentence = f"The pilot agent could not be started from {file}: {error.strerror}."
        raise InstallationError(REFUSED, sentence) from error


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the agent that the installer uses too."""
    parser = argparse.ArgumentParser(prog="pilot", usage="see --help", add_help=False, allow_abbrev=False)
    parser.add_argument("--server", default="")
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--ca")
    parser.add_argument("--token-file", default="")
    parser.add_argument("--remove-token-file", action="store_true")
    parser.add_argument("--patience-s", type=float, default=300.0)
    return parser.parse_known_args(arguments)[0]


def certificates_of(ca: str | None) -> ssl.SSLContext:
    """Return the certificates to trust: those in a file or a directory, or the system's."""
    if ca is None:
        return ssl.create_default_context()
    return ssl.create_default_context(capath=ca) if Path(ca).is_dir() else ssl.create_default_context(cafile=ca)


def fetch(http: HttpClient, *, patience_s: float) -> bytes:
    """Return the agent; retry while the server is down or the content is damaged, for at most *patience_s*.

    Raises:
        StatusError: the server refuses.
        OSError, HTTPException, ValueError: the last try failed.
    """
    give_up_at, wait_s = time.monotonic() + patience_s, FIRST_WAIT_S
    while True:
        try:
            return fetch_once(http)
        except (StatusError, OSError, HTTPException, ValueError) as error:
            if is_final(error) or not time.monotonic() + wait_s <= give_up_at:  # also when patience_s is NaN
                raise
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def fetch_once(http: HttpClient) -> bytes:
    """Return the content of the response if its SHA-256 is that in its header."""
    with closing(http.send("GET", AGENT, headers={})) as exchange:
        headers = exchange.response.headers
        if not exchange.is_successful:
            raise StatusError(exchange.response.status, headers.get("Location", "nowhere"))
        program = exchange.read()
        expected = headers["X-Agent-SHA256"]
    if expected is None:
        raise ValueError("the answer has no X-Agent-SHA256, so the server is not a workload management system")
    if hashlib.sha256(program).hexdigest() != expected:
        raise ValueError("it arrived damaged: its SHA-256 differs from that of the server")
    return program


def is_final(error: Exception) -> bool:
    """Return whether further tries would fail too."""
    if isinstance(error, StatusError):
        return error.status not in TROUBLE
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


def sentence_of(error: Exception) -> str:
    """Return the sentence of an error; for an unknown certificate, with the remedy."""
    if is_final(error):
        return f"{error.__cause__}; name the certificates to trust with --ca"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
