"""``python -m wms.web``: serve the application over HTTP/1.1."""

import argparse
import os
import resource
from pathlib import Path
from typing import Final

from django.conf import settings

# The following import reads it.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

from wms.web.server import serve

#: Open files of a process: its connections and others.
_MOST_FILES: Final = 16_384


def main() -> None:
    """Serve."""
    options = _parser().parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _MOST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_MOST_FILES, hard) if hard >= 0 else _MOST_FILES, hard))
    serve(
        host=options.host,
        port=options.port,
        uds=options.uds,
        uds_permissions=options.uds_permissions,
        workers=options.workers,
        threads=options.threads,
        head_s=settings.WMS_WEB_HEAD_S,
        max_rss_mb=settings.WMS_WEB_MAX_RSS_MB,
        prefix=options.url_path_prefix,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wms.web", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at (default: %(default)s)")
    parser.add_argument("--uds", type=Path, help="Unix socket to listen at instead")
    parser.add_argument("--uds-permissions", type=_octal, metavar="MODE", help="permissions of the socket, such as 660")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=8, help="requests that a process answers at once (default: 8)")
    parser.add_argument("--url-path-prefix", default="", metavar="PATH", help="prefix of all addresses, such as /wms")
    return parser


def _octal(text: str) -> int:
    return int(text, base=8)


if __name__ == "__main__":
    main()
