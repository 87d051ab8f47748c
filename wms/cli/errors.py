"""Exit codes of the commands, and their errors."""

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, on which scripts rely."""

    DONE = 0
    REFUSED = 1
    WRONG_USAGE = 2
    NOT_REACHABLE = 3


class CommandError(Exception):
    """Base of errors that end a command; the text is one sentence that says what is wrong and what to do."""

    exit_code = Exit.REFUSED
    code = "refused"

    def as_json(self) -> Mapping[str, object]:
        """Return the JSON for ``--json``, in the shape of the server's own errors."""
        return {"code": self.code, "detail": str(self)}


class ServerRefusedError(CommandError):
    """The server refused the request.

    Args:
        body: of the answer, in the API's shape of errors.
    """

    def __init__(self, body: Mapping[str, object]) -> None:
        super().__init__(str(body["detail"]))
        self._body = body

    def as_json(self) -> Mapping[str, object]:
        """Return the answer of the server."""
        return self._body


class NotLoggedInError(CommandError):
    """There is no token for the server."""

    code = "not_logged_in"


class WrongUsageError(CommandError):
    """The command line, or the typed input, is not valid."""

    exit_code = Exit.WRONG_USAGE
    code = "wrong_usage"


class NotReachableError(CommandError):
    """There was no answer, or one of another program."""

    exit_code = Exit.NOT_REACHABLE
    code = "not_reachable"
