"""The cookies by which servers recognise this computer at a log-in; apart, as http.cookiejar slows the start."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http.cookiejar import LWPCookieJar
from pathlib import Path

from .credentials import file_of
from .wire.private_directories import make_private


def devices(environment: Mapping[str, str]) -> LWPCookieJar:
    """Return the cookies by which servers know this computer since a log-in.

    With them, wrong passwords that others send from the same address do not delay the next log-in.
    """
    path = file_of(environment).with_name("devices")
    jar = LWPCookieJar(str(path))
    with suppress(OSError):  # missing or unreadable: then this computer is unknown
        jar.load()
    return jar


def keep_devices(jar: LWPCookieJar) -> None:
    """Store the cookies in a file of mode 0600; no file without cookies."""
    if not len(jar):
        return
    path = Path(str(jar.filename))
    make_private(path.parent)
    path.touch(mode=0o600)
    jar.save()
