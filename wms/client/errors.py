"""The errors of the client, and the exit codes of its commands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, on which scripts rely."""

    DONE = 0
    REFUSED = 1
    WRONG_USAGE = 2
    NOT_REACHABLE = 3


class ClientError(Exception):
    """Base of the client's errors; the text is one sentence that says what is wrong and what to do."""

    exit_code = Exit.REFUSED
    #: A stable word, as the codes of the server.
    code = "refused"

    def as_json(self) -> Mapping[str, object]:
        """Return the JSON for ``--json``, in the shape of the server's own errors."""
        return {"code": self.code, "detail": str(self)}


class ServerRefusedError(ClientError):
    """The server refused the request; nothing has changed.

    Args:
        body: of the answer: an ``application/problem+json`` object (RFC 9457), or one with ``code`` and ``detail``.
        status: of the answer.

    Attributes:
        code: the server's stable word, such as ``not_found``.
        status: such as 404.
        errors: sentences by field of the request; empty unless input was wrong.
    """

    def __init__(self, body: Mapping[str, object], *, status: int) -> None:
        super().__init__(str(body.get("detail") or body.get("title")))
        self._body = body
        self.status = status
        # A problem without a code is identified by the end of the address of its type.
        self.code = str(body.get("code") or str(body.get("type", "")).rstrip("/").rpartition("/")[2] or "refused")
        errors = body.get("errors")
        given = errors.items() if isinstance(errors, dict) else ()
        self.errors: Mapping[str, list[str]] = {name: each for name, each in given if isinstance(each, list)}

    def as_json(self) -> Mapping[str, object]:
        """Return the answer of the server."""
        return self._body


class NotLoggedInError(ClientError):
    """There is no token for the server."""

    code = "not_logged_in"


class WrongUsageError(ClientError):
    """An argument, the command line, or the typed input is not valid."""

    exit_code = Exit.WRONG_USAGE
    code = "wrong_usage"


class NotReachableError(ClientError):
    """There was no answer, or one of another program; whether the request was carried out is not known."""

    exit_code = Exit.NOT_REACHABLE
    code = "not_reachable"
