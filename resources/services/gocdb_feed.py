"""The feed of downtimes from GOCDB: an address or a file, read with bounds of size and time (ADR 108)."""

import http.client
import logging
import urllib.request
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import IO, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from resources.domain.gocdb import MAX_BYTES, parse
from resources.services.downtimes import IMPORT, ImportResult, import_announced

logger = logging.getLogger(__name__)

#: Seconds for one read, and for the whole document.
_READ_S: Final = 20.0
_WHOLE_S: Final = 60.0
_CHUNK_BYTES: Final = 64 * 1024


class FeedError(Exception):
    """The feed could not be read; the message is for operators."""


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to the same host, by HTTPS."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request of the new address."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise FeedError(f"{old.hostname} redirects to another host, which is not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def import_feed(*, now: datetime) -> ImportResult | None:
    """Import the downtimes of WMS_GOCDB_URL; None: it is empty.

    Raises:
        FeedError: it could not be read.
        AnnouncementError: it is no answer of GOCDB.
    """
    address: str = settings.WMS_GOCDB_URL
    if not address:
        return None
    announcements = parse(_read(address))
    with transaction.atomic(durable=True):
        result = import_announced(announcements, by=IMPORT, now=now)
    logger.info("downtimes.imported", extra=asdict(result))
    return result


def _read(address: str) -> bytes:
    try:
        if address.startswith("/"):
            with Path(address).open("rb") as file:
                return file.read(MAX_BYTES + 1)
        if not address.startswith("https://"):
            raise FeedError("WMS_GOCDB_URL is neither an https address nor an absolute path.")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(), SameHost())
        request = urllib.request.Request(address, headers={"Accept": "application/xml"})  # noqa: S310 - https, see above
        with opener.open(request, timeout=_READ_S) as answer:
            return _bounded(answer)
    except (OSError, http.client.HTTPException) as error:
        raise FeedError(f"WMS_GOCDB_URL could not be read: {type(error).__name__}: {error}") from error


def _bounded(answer: http.client.HTTPResponse) -> bytes:
    deadline, content = monotonic() + _WHOLE_S, bytearray()
    while len(content) <= MAX_BYTES and (chunk := answer.read1(_CHUNK_BYTES)):
        content += chunk
        if monotonic() > deadline:
            raise FeedError(f"WMS_GOCDB_URL did not answer completely within {_WHOLE_S:.0f} s.")
    return bytes(content)
