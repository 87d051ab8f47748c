"""Examples of requests and answers in the OpenAPI document, from the files ``*/examples.yaml`` of the apps.

Each names operations by their ids, and for each operation one body as ``request`` and ``answer``, or several by their
names as ``requests`` and ``answers``. The answer is that of the success, of several the first; that of another one is
named with its status, such as ``answer_202``.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from django.apps import apps

from wms.kernel.rest.errors import error_body

Record = dict[str, Any]

_REDIRECTS: Final = HTTPStatus.MULTIPLE_CHOICES
#: Of all errors, at their component.
_ERROR: Final = (HTTPStatus.CONFLICT, "illegal_transition", "Job 3 is Done and cannot be killed.")


class UnknownExampleError(Exception):
    """An example is of an operation, or of a body, that the document does not have."""


def with_examples(result: Record, **_of_the_hook: object) -> Record:
    """Return the OpenAPI document with the examples of all apps.

    Raises:
        UnknownExampleError: as it says.
    """
    operations = {each["operationId"]: each for path in result["paths"].values() for each in path.values()}
    for operation_id, examples in _examples():
        if operation_id not in operations:
            raise UnknownExampleError(operation_id)
        of_status = (name for name in examples if name.startswith("answer_"))
        for side in ("request", "answer", *of_status):
            added = _as_in_document(examples, side)
            media = _content_of(operations[operation_id], side)
            if added and not media:
                raise UnknownExampleError(f"{operation_id}: {side}")
            for each in media.values():
                each.update(added)
    result["components"]["schemas"]["ErrorAnswer"]["example"] = error_body(*_ERROR)
    return result


def _examples() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for app in apps.get_app_configs():
        for file in Path(app.path).glob("*/examples.yaml"):
            yield from yaml.safe_load(file.read_text(encoding="utf-8")).items()


def _as_in_document(examples: Mapping[str, Any], side: str) -> Record:
    if side in examples:
        return {"example": examples[side]}
    several = examples.get(f"{side}s", {})
    return {"examples": {name: {"value": value} for name, value in several.items()}} if several else {}


def _content_of(operation: Record, side: str) -> Mapping[str, Record]:
    if side == "request":
        body = operation.get("requestBody", {})
    elif side == "answer":
        successes = (each for status, each in operation["responses"].items() if int(status) < _REDIRECTS)
        body = next((each for each in successes if "content" in each), {})
    else:
        body = operation["responses"].get(side.removeprefix("answer_"), {})
    content: Mapping[str, Record] = body.get("content", {})
    return content
