"""Examples of requests and answers in the OpenAPI document, from the files ``*/examples.yaml`` of the apps.

Each names operations by their ids, and for each operation one body as ``request`` and ``answer``, or several by their
names as ``requests`` and ``answers``. The answer is that of the success.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from django.apps import apps

from wms.kernel.rest.errors import error_body

Record = dict[str, Any]

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
        for side, content in (("request", _request_of), ("answer", _answer_of)):
            added = _as_in_document(examples, side)
            media = content(operations[operation_id])
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


def _request_of(operation: Record) -> Mapping[str, Record]:
    content: Mapping[str, Record] = operation.get("requestBody", {}).get("content", {})
    return content


def _answer_of(operation: Record) -> Mapping[str, Record]:
    for status, answer in operation["responses"].items():
        if int(status) < HTTPStatus.MULTIPLE_CHOICES and "content" in answer:
            content: Mapping[str, Record] = answer["content"]
            return content
    return {}
