"""Members of every error of the REST interface (RFC 9457)."""

from collections.abc import Mapping
from typing import Any, Final

#: Members of every error; wrong input also has ``errors``.
MEMBERS: Final = {"type", "title", "status", "code", "detail"}
MEDIA_TYPE: Final = "application/problem+json"


def of_problem(body: Mapping[str, Any]) -> tuple[int, str, str]:
    """Return status, code and detail of an error, which has the members of all and the type of its code."""
    assert set(body) - {"errors"} == MEMBERS
    assert body["type"].endswith(f"/api/v1/errors/{body['code']}/")
    assert body["title"]
    return body["status"], body["code"], body["detail"]
