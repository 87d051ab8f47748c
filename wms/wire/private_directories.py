"""Directories for their owner alone."""

from pathlib import Path


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, each for its owner alone; an existing one keeps its mode.

    ``mkdir(mode=…, parents=True)`` would apply the mode to the last one only.

    Raises:
        OSError: one of them cannot be made.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
