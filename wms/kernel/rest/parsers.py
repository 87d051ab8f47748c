"""Parsers of request bodies."""

from collections.abc import Mapping
from typing import IO

from rest_framework.parsers import JSONParser

from wms.kernel.rest.strict_json import InvalidJSONError, load_json


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
    ) -> object:
        """Return the value of the body."""
        encoding = str((parser_context or {}).get("encoding", "utf-8"))
        if encoding.lower().replace("_", "-") not in {"utf-8", "utf8", "us-ascii", "ascii"}:
            raise InvalidJSONError(f'The charset "{encoding[:40]}" is not accepted; send UTF-8.')
        return load_json(stream.read())
