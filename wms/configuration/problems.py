"""Errors and warnings about a configuration file, by line."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wms.kernel.errors import RejectedError


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """One sentence about one place of the file."""

    #: Counted from 1.
    line: int
    #: Path of the key, such as ``sites[0].ces[1].name``; empty: the file as a whole.
    path: str
    sentence: str

    def __str__(self) -> str:
        where = f"line {self.line}: {self.path}" if self.path else f"line {self.line}"
        return f"{where}: {self.sentence}"


class ConfigurationError(RejectedError):
    """The configuration file is refused; nothing of it was stored.

    Args:
        problems: all of them; sorted by line.
    """

    code = "configuration"

    def __init__(self, problems: Iterable[Remark]) -> None:
        self.problems = tuple(sorted(set(problems)))
        lines = [*map(str, self.problems)]
        super().__init__("\n".join(lines), errors={"file": lines})

    def about(self, file: Path) -> str:
        """Return the text for users: the name of the file, and a line for each problem."""
        count = len(self.problems)
        return (
            f"{file} is not accepted; nothing was changed. "
            f"{count} {'problems' if count > 1 else 'problem'}:\n{self.detail}"
        )


class Unreadable(Exception):  # noqa: N818 - control flow: the remark is already made
    """A value cannot be used; its problem has been noted."""
