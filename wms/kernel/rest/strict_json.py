"""JSON of RFC 8259 that PostgreSQL can store; all other input is one clear error."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import IO, Any, Final

from rest_framework.parsers import JSONParser

from wms.kernel.errors import RejectedError

#: Levels; no body of this API needs more than ten, and Python's stack allows far more.
MAX_DEPTH = 100
MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)

#: Escapes of NUL and of surrogates, single or in pairs.
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTAINERS = (dict, list)

#: Marks the end of an object or list; not a JSON value.
_NOTHING = object()

#: Names of JSON's types in sentences.
TYPE_NAMES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class InvalidJSONError(RejectedError):
    """The text is not JSON, or holds values that no field accepts."""

    code = "invalid_json"


def load_json(text: bytes) -> object:
    """Return the value of *text*, JSON in UTF-8.

    Raises:
        InvalidJSONError: not UTF-8, not JSON, NaN or Infinity, a name twice in one object, an integer beyond 63 bits,
            a number beyond a double, more than 100 levels, a NUL or half of a surrogate pair in a string.
    """
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJSONError(f"The body is not UTF-8: byte {error.start + 1} is wrong.") from error
    try:
        value: object = _DECODER.decode(decoded)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidJSONError(f"The body is not valid JSON: {error.msg} at {where}.") from error
    except RecursionError as error:
        raise _too_deep() from error
    # Bad text or depth is only possible where the bytes hold such an escape or that many brackets. Checking every text
    # of ten thousand descriptions would take longer than parsing them.
    if _SUSPICIOUS.search(text) or (text.count(b"{") + text.count(b"[") > MAX_DEPTH and _is_too_deep(value)):
        _refuse_unstorable(value)
    return value


def _too_deep() -> InvalidJSONError:
    return InvalidJSONError(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _integer(digits: str) -> int:
    # 20 characters hold every 64-bit number; int() of millions of digits takes minutes.
    if len(digits) > 20 or not MIN_INTEGER <= int(digits) <= MAX_INTEGER:
        raise InvalidJSONError(f"The integer {digits[:25]} is too large: integers have at most 63 bits.")
    return int(digits)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidJSONError(f"The number {text[:25]} is too large: numbers stay below 1.8e308.")
    return value


def _refused_constant(name: str) -> None:
    raise InvalidJSONError(f"{name} is not valid JSON; leave the field out or send a number.")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InvalidJSONError(f'The name "{name[:100]}" occurs twice in one object; keep one of them.')
            seen.add(name)
    return value


#: Made once: ``json.loads`` with these functions would make one for each text.
_DECODER: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_number, parse_constant=_refused_constant, object_pairs_hook=_object
)


def _is_too_deep(value: object) -> bool:
    level: list[dict[str, object] | list[object]] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for item in level
            for part in (item.values() if isinstance(item, dict) else item)
            if isinstance(part, _CONTAINERS)
        ]
    return bool(level)


def _refuse_unstorable(value: object) -> None:
    """Raise if a string cannot be stored by PostgreSQL, or if the value is nested too deep."""
    level: list[object] = [value]
    depth = 0
    while level:
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                if flaw := _flaw_of(item):
                    raise InvalidJSONError(flaw, errors={_place_of_flaw(value): [flaw]})
            elif isinstance(item, dict | list):
                if depth == MAX_DEPTH:
                    raise _too_deep()
                below.extend(_parts(item))
        level = below
        depth += 1


def _parts(item: dict[str, object] | list[object]) -> Iterable[object]:
    return chain(item.keys(), item.values()) if isinstance(item, dict) else item


def _flaw_of(text: str) -> str:
    """Return why PostgreSQL cannot store *text*, or an empty string."""
    if "\x00" in text:
        return "A string holds the NUL character (\\u0000), which cannot be stored."
    if _SURROGATE.search(text):
        return "A string holds half of a surrogate pair (\\ud800 to \\udfff); send whole characters."
    return ""


def _place_of_flaw(value: object) -> str:
    """Return the dotted name of a text that cannot be stored, or of the object with such a name."""
    names: list[str | int] = []
    #: The rest of each object and list that was begun, the outermost first.
    begun: list[Iterator[tuple[str | int, object]]] = [iter([("", value)])]
    while begun:
        del names[len(begun) - 1 :]
        name, item = next(begun[-1], ("", _NOTHING))
        if item is _NOTHING:
            begun.pop()
            continue
        names.append(name)
        if isinstance(item, str) and _flaw_of(item):
            break
        if isinstance(item, dict):
            if any(map(_flaw_of, item)):
                break
            begun.append(iter(item.items()))
        elif isinstance(item, list):
            begun.append(iter(enumerate(item)))
    return ".".join(str(name)[:64] for name in names[1:]) or "body"


class StrictJSONParser(JSONParser):
    """JSON in UTF-8, read by load_json.

    NB: it must remain a JSONParser: only for those does Django REST framework enforce DATA_UPLOAD_MAX_MEMORY_SIZE
    while it reads the body.
    """

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, object] | None = None,
    ) -> Any:  # noqa: ANN401 - any JSON value; serializers check its type
        """Return the value of the body."""
        return load_json(stream.read())
