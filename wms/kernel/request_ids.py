"""Ids of requests: on each line of the log about a request and its background tasks, and in its answer."""

import re
from collections.abc import Mapping
from secrets import randbits
from typing import Any, Final

#: Header of requests, from a proxy or a client, and of their answers.
HEADER: Final = "X-Request-ID"
#: Header of Celery's messages.
OF_TASK: Final = "wms_request_id"
_VALID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def request_id_of(environ: Mapping[str, Any]) -> str:
    """Return the id that the request brings, if it is 1 to 64 of letters, digits, ``.``, ``_``, ``-``; else a new one.

    Args:
        environ: as WSGI has it.
    """
    brought: str = environ.get("HTTP_X_REQUEST_ID", "")
    return brought if _VALID.fullmatch(brought) else f"{randbits(64):016x}"
