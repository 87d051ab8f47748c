"""Command line: ``python3 agent.pyz --server URL --token-file PATH …``, or ``python -m pilots.agent …``."""

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
from wms.wire.protocol import PILOT_TOKEN_PREFIX
from wms.wire.search_path import leave_out_current_directory
from wms.wire.version import __version__

WRONG_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a pilot to its end; return the exit code (see ``--help``)."""
    started_at = monotonic()
    _open_standard_streams()
    leave_out_current_directory()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(options.parse(words), started_at=started_at)
    finally:
        if options.REMOVE_PROGRAM in words:  # also when parsing failed
            _remove_program()


def _run(settings: Options, *, started_at: float) -> int:
    if accounts.can_change_user():
        # Payloads run as other users; see identity.py.
        settings = replace(settings, work_dir=site_environment.open_to_others(settings.work_dir, os.environ))
    # Before any secret is in memory.
    linux.hide_memory()
    linux.adopt_orphans()
    if not settings.remove_token_file:
        settings = replace(
            settings, token_left=credentials.file_left(settings.token_file, descriptor=settings.token_fd)
        )
    try:
        token = credentials.read_token(settings.token_file, descriptor=settings.token_fd)
        pilot = PilotLoop(settings, token=token, started_at=started_at)
    except (BadTokenError, BadCertificatesError) as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_USAGE
    if not token.startswith(PILOT_TOKEN_PREFIX):
        missing = [name for name in ("vo", "site", "ce", "queue") if not getattr(settings, name)]
        if missing:
            named = ", ".join(f"--{name}" for name in missing)
            sys.stderr.write(f"To register, the pilot needs its place: give {named} too.\n")
            return WRONG_USAGE
    if settings.remove_token_file and settings.token_file not in {"", STANDARD_INPUT}:
        try:
            Path(settings.token_file).unlink(missing_ok=True)
        except OSError as error:
            sentence = f"cannot be removed ({error.strerror}), and jobs of this user could read it"
            sys.stderr.write(f"The token file {settings.token_file} {sentence}: leave out --remove-token-file.\n")
            return WRONG_USAGE
    log.event("pilot.started", version=__version__, server=settings.server, work_directory=settings.work_dir)
    return pilot.run()


def _remove_program() -> None:
    """Remove the zipapp of the agent, unless it runs from a directory."""
    program = Path(__file__).parents[2]
    if program.is_file():
        with suppress(OSError):  # a file left behind must not change the exit code
            program.unlink()


def _open_standard_streams() -> None:
    """Open the first three descriptors if the agent was started without them, so that nothing else gets them.

    Standard output and error are unbuffered: a full disk at exit would otherwise change the exit code.
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
