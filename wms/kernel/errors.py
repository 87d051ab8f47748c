"""Categories of errors reported to callers; views and commands map the category to a status, never the class."""

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from wms.wire.protocol import NOT_FOUND

#: Of errors of a file system without room, or that may only be read.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class WmsError(Exception):
    """Base of every error that is reported to a caller.

    Args:
        detail: one sentence that says what is wrong and what to do.
        errors: for bad input, the sentences per field; names of nested fields are dotted (``jobs.3.executable``).
    """

    code: ClassVar[str] = "error"

    def __init__(self, detail: str, *, errors: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = {field: list(sentences) for field, sentences in (errors or {}).items()}


class RejectedError(WmsError):
    """The input is wrong; the same request can never succeed (400)."""

    code = "rejected"


class TooLargeError(RejectedError):
    """The input is larger than this server accepts (413)."""

    code = "too_large"


class ForbiddenError(WmsError):
    """The caller is authenticated but not allowed to do this (403)."""

    code = "forbidden"


class NotFoundError(WmsError):
    """The object does not exist, or is not visible to this caller (404)."""

    code = NOT_FOUND


class ConflictError(WmsError):
    """The request is valid but not possible in the current state (409)."""

    code = "conflict"


class GoneError(WmsError):
    """The object existed, but is no longer kept (410)."""

    code = "gone"


class UnsatisfiableRangeError(WmsError):
    """The request asks for bytes that the file does not have (416).

    Args:
        size_bytes: of the file.
    """

    code = "range_not_satisfiable"

    def __init__(self, detail: str, *, size_bytes: int) -> None:
        super().__init__(detail)
        self.size_bytes = size_bytes


class UnauthenticatedError(WmsError):
    """The credentials are missing or wrong (401)."""

    code = "not_authenticated"


class TooManyError(WmsError):
    """The caller has sent too many requests (429).

    Args:
        retry_after_s: seconds until the next try; whole, at least 1.
    """

    code = "too_many"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = max(1, retry_after_s)


class UnavailableError(WmsError):
    """The request is valid but cannot be answered at present (503).

    Args:
        retry_after_s: seconds until the next try; whole, at least 1.
    """

    code = "unavailable"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = max(1, retry_after_s)


def with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it: code between a failure and its report may have given it another type."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or a cause of it, is of a file system without room, or that may only be read."""
    return any(isinstance(each, OSError) and each.errno in _NO_ROOM for each in with_causes(error))
