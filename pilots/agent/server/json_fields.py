"""Typed access to fields of the server's JSON; unknown fields are ignored, for newer servers may send more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

Record = Mapping[str, object]


class MalformedAnswerError(Exception):
    """A field of the server's answer is missing or has a wrong type."""


def record(value: object, name: str = "answer") -> Record:
    """Return *value* as a JSON object."""
    if not isinstance(value, dict):
        raise MalformedAnswerError(f"{name} is not an object")
    return value


def optional_record(data: Record, name: str) -> Record:
    """Return the object *name*; an empty one when it is absent or null."""
    value = data.get(name)
    return {} if value is None else record(value, name)


def text(data: Record, name: str, default: str | None = None) -> str:
    """Return the string *name*; *default* when it is absent or null."""
    value = data.get(name, default)
    value = default if value is None else value
    if not isinstance(value, str):
        raise MalformedAnswerError(f"{name} is not a string")
    return value


def number(data: Record, name: str, default: float | None = None) -> float:
    """Return the number *name*; *default* when it is absent or null."""
    value = data.get(name, default)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise MalformedAnswerError(f"{name} is not a number")
    return value


def whole(data: Record, name: str, default: int | None = None) -> int:
    """Return the number *name* as an integer; *default* when it is absent or null."""
    return int(number(data, name, default))


def names(data: Record, name: str) -> tuple[str, ...]:
    """Return the list of strings *name*; an empty one when it is absent or null."""
    value = data.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise MalformedAnswerError(f"{name} is not a list of strings")
    return tuple(value)


def records(data: Record, name: str) -> tuple[Record, ...]:
    """Return the list of objects *name*; an empty one when it is absent or null."""
    value = data.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise MalformedAnswerError(f"{name} is not a list")
    return tuple(record(each, name) for each in value)


def moment(data: Record, name: str) -> datetime | None:
    """Return the time *name* (RFC 3339), with its zone; None when it is absent or null."""
    written = text(data, name, "")
    if not written:
        return None
    try:
        # NB: Python 3.9 parses only fractions of 3 or 6 digits; the server sends no others.
        value = datetime.fromisoformat(written.replace("Z", "+00:00"))
    except ValueError as error:
        raise MalformedAnswerError(f"{name} is not a time") from error
    if value.tzinfo is None:
        raise MalformedAnswerError(f"{name} has no zone")
    return value
