"""Fetches the pilot agent, verifies it and becomes it: a program of its own, sent as text in the script of a pilot.

It is run as ``python3 -I -c PROGRAM FILE --server URL …``: FILE is where the agent is to be, the rest is for the agent.
It needs Python 3.9, as the agent does, and nothing else. What the agent must be is told by the answer that it comes in:
the server may have been upgraded while the pilot waited in a batch queue, and has its new agent since then.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import ssl
import sys
import time
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import NoReturn
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

REFUSED, WRONG_USAGE, UNREACHABLE = 1, 2, 3
ADDRESS = re.compile(r"https?://[^\s/]\S*", re.IGNORECASE)
#: Of a single operation of the network.
TIMEOUT_S = 60.0
#: Between two tries, at first and at most.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
#: Overloaded, restarting, or a proxy that cannot reach the server.
TROUBLE = frozenset({429, *range(500, 600)})


class InstallationError(Exception):
    """There will be no pilot; the sentence says why."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def main(arguments: Sequence[str]) -> int:
    """Become the agent; return only when that failed, with the exit code that the agent would have too."""
    file = Path(arguments[0])
    try:
        become_agent(file, list(arguments[1:]))
    except InstallationError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    finally:  # also where an option is wrong; the agent, once it runs, removes itself
        file.unlink(missing_ok=True)


def become_agent(file: Path, arguments: list[str]) -> NoReturn:
    """Fetch the agent into *file* and run it with *arguments* in place of this program.

    Raises:
        InstallationError: that is not possible.
    """
    options = parse(arguments)
    if options.remove_token_file and options.token_file not in {"", "-"} and not Path(options.token_file).exists():
        # A batch system has started the pilot a second time: its token was used up before.
        raise InstallationError(WRONG_USAGE, f"The token file {options.token_file} cannot be read: there is none.")
    if not ADDRESS.fullmatch(options.server):
        raise InstallationError(WRONG_USAGE, "Give the address of the server: --server https://wms.example.org")
    try:
        opener = opener_of(options.ca)
    except OSError as error:
        raise InstallationError(WRONG_USAGE, f"The certificates {options.ca} cannot be read: {error}.") from error
    address = options.server.rstrip("/") + "/api/pilots/agent.pyz"
    try:
        program = fetch(opener, address, patience_s=options.patience_s)
    except HTTPError as error:
        sentence = f"There is no pilot agent at {address}: the server answered {error.code}."
        raise InstallationError(UNREACHABLE if error.code in TROUBLE else REFUSED, sentence) from error
    except (OSError, HTTPException, ValueError) as error:
        sentence = f"The pilot agent could not be fetched from {address}: {sentence_of(error)}."
        raise InstallationError(UNREACHABLE, sentence) from error
    try:
        file.write_bytes(program)
        # Where there is no PATH, as in jobs of HTCondor, Python does not know where it is.
        python = sys.executable or str(Path("/proc/self/exe").readlink())
        os.execv(python, [python, "-I", str(file), "--remove-program", *arguments])  # noqa: S606 - this program itself
    except OSError as error:
        sentence = f"The pilot agent could not be started from {file}: {error.strerror}."
        raise InstallationError(REFUSED, sentence) from error


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the few options of the agent that matter here too."""
    parser = argparse.ArgumentParser(prog="pilot", usage="see --help", add_help=False, allow_abbrev=False)
    parser.add_argument("--server", default="")
    parser.add_argument("--ca")
    parser.add_argument("--token-file", default="")
    parser.add_argument("--remove-token-file", action="store_true")
    parser.add_argument("--patience-s", type=float, default=300.0)
    return parser.parse_known_args(arguments)[0]


def opener_of(ca: str | None) -> OpenerDirector:
    """Return what opens addresses as the agent will: with these certificates, and without a proxy."""
    if ca is None:
        trusted = ssl.create_default_context()
    elif Path(ca).is_dir():
        trusted = ssl.create_default_context(capath=ca)
    else:
        trusted = ssl.create_default_context(cafile=ca)
    return build_opener(ProxyHandler({}), HTTPSHandler(context=trusted))


def fetch(opener: OpenerDirector, address: str, *, patience_s: float) -> bytes:
    """Return the agent; tried again while the server is down or what comes is not whole, as long as patience lasts.

    Raises:
        HTTPError: the server refuses.
        OSError, HTTPException, ValueError: the last try failed.
    """
    give_up_at, wait_s = time.monotonic() + patience_s, FIRST_WAIT_S
    while True:
        try:
            return fetch_once(opener, address)
        except (OSError, HTTPException, ValueError) as error:
            if is_final(error) or not time.monotonic() + wait_s <= give_up_at:  # of patience that is no number: none
                raise
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def fetch_once(opener: OpenerDirector, address: str) -> bytes:
    """Return what is there, if it is what the answer says that it is."""
    with opener.open(address, timeout=TIMEOUT_S) as answer:
        program: bytes = answer.read()
        expected = answer.headers["X-Agent-SHA256"]
    if expected is None:
        raise ValueError("the answer has no X-Agent-SHA256, so it is none of a workload management system")
    if hashlib.sha256(program).hexdigest() != expected:
        raise ValueError("it arrived damaged, for its SHA-256 is not what the server says")
    return program


def is_final(error: Exception) -> bool:
    """Return whether the next try would fail too."""
    if isinstance(error, HTTPError):
        return error.code not in TROUBLE
    return isinstance(error, URLError) and isinstance(error.reason, ssl.SSLCertVerificationError)


def sentence_of(error: Exception) -> str:
    """Return what went wrong, and of an unknown certificate what to do."""
    if is_final(error):
        return f"{error}; name the certificates to trust with --ca"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
