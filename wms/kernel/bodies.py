"""Limits of the lengths of request bodies; each view sets its own in ``most_body_bytes``."""

from typing import Final

from django.urls import Resolver404, resolve

#: Limit of a view without ``most_body_bytes``: room for any form and any small JSON object.
DEFAULT_BYTES: Final = 64 * 1024
#: Limit of the admin, whose forms hold expressions of 64 kB, and whose lists the selected rows of a page.
_ADMIN_BYTES: Final = 1024 * 1024
_ADMIN: Final = "admin"


def most_bytes_of(path: str) -> int:
    """Return the limit, in bytes, of bodies at this path."""
    try:
        match = resolve(path)
    except Resolver404:
        return DEFAULT_BYTES
    if _ADMIN in match.namespaces:
        return _ADMIN_BYTES
    view = getattr(match.func, "view_class", match.func)
    return int(getattr(view, "most_body_bytes", DEFAULT_BYTES))
