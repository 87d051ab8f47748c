"""How long the bodies of requests may be: each view says what its largest true one has, in ``most_body_bytes``."""

from typing import Final

from django.urls import Resolver404, resolve

#: Of a view that says nothing: room for any form and any small object of JSON.
DEFAULT_BYTES: Final = 64 * 1024
#: Of the admin, whose forms hold expressions of 64 kB, and whose lists the marks of a page.
_ADMIN_BYTES: Final = 1024 * 1024
_ADMIN: Final = "admin"


def most_bytes_of(path: str) -> int:
    """Return the length, in bytes, of the longest body that is read at this path."""
    try:
        match = resolve(path)
    except Resolver404:
        return DEFAULT_BYTES
    if _ADMIN in match.namespaces:
        return _ADMIN_BYTES
    view = getattr(match.func, "view_class", match.func)
    return int(getattr(view, "most_body_bytes", DEFAULT_BYTES))
