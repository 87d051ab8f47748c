"""``python -m wms.web``: serve the application over HTTP/1.1."""

import argparse
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from django.conf import settings
from django.utils.module_loading import import_string
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels

# The following import reads it.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

from wms.web.server import WebServer, end_by_signals, run_process

#: Open files of a process: its connections and others.
_MOST_FILES: Final = 16_384
#: Connections of a process; more wait in the kernel. An idle one takes some kB, and times out.
_MOST_CONNECTIONS: Final = 4096
_BACKLOG: Final = 2048
#: Bytes of the largest head, and of a piece of a body.
_BUFFER_BYTES: Final = 64 * 1024
#: Seconds for a stopping process to answer its last requests.
_LAST_REQUESTS_S: Final = 30
_LOOK_AT_MEMORY_EVERY_S: Final = 5


def _application(target: str) -> Callable[..., object]:
    """Return the application with this name; granian's own loader puts the current directory before all others."""
    application: Callable[..., object] = import_string(target.replace(":", "."))
    return application


def main() -> None:
    """Serve until the process is stopped."""
    options = _parser().parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _MOST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_MOST_FILES, hard) if hard >= 0 else _MOST_FILES, hard))
    os.register_at_fork(after_in_child=end_by_signals)
    head_ms = round(1000 * settings.WMS_WEB_HEAD_S)
    WebServer(
        "wms.wsgi:application",
        address=options.host,
        port=options.port,
        uds=options.uds,
        uds_permissions=options.uds_permissions,
        # The only interface for which granian allows several threads.
        interface=Interfaces.WSGI,
        workers=options.workers,
        blocking_threads=options.threads,
        # No client uses HTTP/2 without TLS, and one connection could carry many requests that never end.
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_MOST_CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=head_ms, max_buffer_size=_BUFFER_BYTES),
        log_level=LogLevels.error,
        url_path_prefix=options.url_path_prefix or None,
        respawn_failed_workers=True,
        rss_sample_interval=_LOOK_AT_MEMORY_EVERY_S,
        workers_max_rss=settings.WMS_WEB_MAX_RSS_MB,
        workers_kill_timeout=_LAST_REQUESTS_S,
    ).serve(spawn_target=run_process, target_loader=_application)


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
