"""Short commands of the node, run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


def run(
    argv: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without a shell and without input; return its exit code, output and errors.

    Args:
        argv: program and arguments.
        timeout_s: seconds after which it is killed.
        environment: its variables; None: the pilot's.

    Raises:
        OSError: it could not be started.
        subprocess.TimeoutExpired: it was killed.
    """
    return subprocess.run(  # noqa: S603 - the agent chooses the command, and there is no shell
        argv, check=False, timeout=timeout_s, env=None if environment is None else dict(environment), cwd="/",
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
