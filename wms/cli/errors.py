"""How a command may end, and the errors that make it end so."""

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, which scripts rely on."""

    DONE = 0
    REFUSED = 1
    WRONG_USAGE = 2
    NOT_REACHABLE = 3


class CommandError(Exception):
    """Base of what ends a command; the text is one sentence that says what is wrong and what to do."""

    exit_code = Exit.REFUSED
    code = "refused"

    def as_json(self) -> Mapping[str, object]:
        """Return what ``--json`` prints, in the shape of the server's own errors."""
        return {"code": self.code, "detail": str(self)}


class ServerRefusedError(CommandError):
    """The server understood, and said no.

    Args:
        body: what it answered, in its one shape of errors.
    """

    def __init__(self, body: Mapping[str, object]) -> None:
        super().__init__(str(body["detail"]))
        self._body = body

    def as_json(self) -> Mapping[str, object]:
        """Return what the server answered."""
        return self._body


class NotLoggedInError(CommandError):
    """There is no token for the server."""

    code = "not_logged_in"


class WrongUsageError(CommandError):
    """The command line, or what was typed, cannot be understood."""

    exit_code = Exit.WRONG_USAGE
    code = "wrong_usage"


class NotReachableError(CommandError):
    """There was no answer, or none of a server of ours."""

    exit_code = Exit.NOT_REACHABLE
    code = "not_reachable"
