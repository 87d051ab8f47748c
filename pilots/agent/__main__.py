"""``python3 agent.pyz --server URL --token-file PATH …``, or ``python -m pilots.agent …``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pilots.agent.base import linux, log
from pilots.agent.base.clock import monotonic
from pilots.agent.job import accounts
from pilots.agent.node import site_environment
from pilots.agent.pilot import credentials, options
from pilots.agent.pilot.credentials import STANDARD_INPUT, BadTokenError
from pilots.agent.pilot.options import Options
from pilots.agent.pilot.pilot import PilotLoop
from pilots.agent.server.http import BadCertificatesError
from pilots.agent.server.protocol import VERSION

WRONG_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a pilot to its end; return the exit code (see ``--help``)."""
    started_at = monotonic()
    _open_standard_streams()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(options.parse(given), started_at=started_at)
    finally:
        if options.REMOVE_PROGRAM in given:  # also when the rest of it is wrong usage
            _remove_program()


def _run(given: Options, *, started_at: float) -> int:
    if accounts.can_change_user():
        # Payloads are other users there; see identity.py.
        given = replace(given, work_dir=site_environment.open_to_others(given.work_dir, os.environ))
    # Before there is any secret in memory.
    linux.hide_memory()
    linux.adopt_orphans()
    if not given.remove_token_file:
        given = replace(given, token_left=credentials.file_left(given.token_file, descriptor=given.token_fd))
    try:
        token = credentials.read_token(given.token_file, descriptor=given.token_fd)
        pilot = PilotLoop(given, token=token, started_at=started_at)
    except (BadTokenError, BadCertificatesError) as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_USAGE
    if not token.startswith(credentials.PILOT_TOKEN_PREFIX):
        missing = [name for name in ("vo", "site", "ce", "queue") if not getattr(given, name)]
        if missing:
            named = ", ".join(f"--{name}" for name in missing)
            sys.stderr.write(f"To register, the pilot must know where it is: give {named} too.\n")
            return WRONG_USAGE
    if given.remove_token_file and given.token_file not in {"", STANDARD_INPUT}:
        try:
            Path(given.token_file).unlink(missing_ok=True)
        except OSError as error:
            sentence = f"cannot be removed ({error.strerror}), and jobs of this user could read it"
            sys.stderr.write(f"The token file {given.token_file} {sentence}: leave out --remove-token-file.\n")
            return WRONG_USAGE
    log.event("pilot.started", version=VERSION, server=given.server, work_directory=given.work_dir)
    return pilot.run()


def _remove_program() -> None:
    """Remove the file that the agent was packed in; where it runs from a directory there is none."""
    program = Path(__file__).parents[2]
    if program.is_file():
        with suppress(OSError):  # it is in the way of nobody, and how the pilot ended matters more
            program.unlink()


def _open_standard_streams() -> None:
    """Keep the first three descriptors from being given to something else when the agent was started without them.

    What is written to standard error goes there at once or is lost: a full disk below it must not change the exit code.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
        )
        setattr(sys, name, stream)


if __name__ == "__main__":
    sys.exit(main())
