"""What is wrong with a configuration file, line by line."""

from collections.abc import Iterable
from dataclasses import dataclass

from wms.kernel.errors import RejectedError


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """One sentence about one place of the file."""

    #: From 1.
    line: int
    #: Path of the key, such as ``sites[0].ces[1].name``; empty: the file as a whole.
    path: str
    sentence: str

    def __str__(self) -> str:
        where = f"line {self.line}: {self.path}" if self.path else f"line {self.line}"
        return f"{where}: {self.sentence}"


class ConfigurationError(RejectedError):
    """The configuration file is not accepted; nothing of it was stored.

    Args:
        problems: everything that is wrong, not only the first; kept in the order of the lines.
    """

    code = "configuration"

    def __init__(self, problems: Iterable[Remark]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class Unreadable(Exception):  # noqa: N818 - control flow: the remark is already made
    """A value cannot be used; what is wrong with it has been noted."""
