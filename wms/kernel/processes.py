"""States of processes of this machine."""

from pathlib import Path


def is_stopped(process: int) -> bool:
    """Return whether a signal or a debugger has stopped the process of this number."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False  # it has ended
    return status.rpartition(")")[2].split()[0] in "Tt"
