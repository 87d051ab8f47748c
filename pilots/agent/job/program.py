"""What is executed for a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """What is to be executed, all of it resolved."""

    executable: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
