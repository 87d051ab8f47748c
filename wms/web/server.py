"""granian's server, with a request buffer in place of its own interfaces to Python.

With its WSGI interface an answering thread waits for each body, so that a few silent clients stop the server. With its
RSGI interface an event loop runs between granian's threads and ours, which costs 50 µs a request, a tenth of a
heartbeat. Here its RSGI worker calls the buffer in its threads, and again when a piece of a body arrives: the "loop"
that it gets calls at once what a real one would schedule (ADR 46). The buffer passes the request to threads of ours.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from granian._granian import CallbackScheduler, RSGIWorker, SocketHolder, WorkerSignal
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.common import WORKERS_METHODS
from granian.server.mp import MPServer, WorkerProcess

from wms.web.limits import BodyLimits
from wms.web.request_buffer import RequestBuffer

#: Connections of a process; more wait in the kernel. An idle one takes some kB, and times out.
_MOST_CONNECTIONS: Final = 4096
_BACKLOG: Final = 2048
#: Bytes of the largest head, and of a piece of a body.
_BUFFER_BYTES: Final = 64 * 1024
#: Seconds for a stopping process to answer its last requests.
_LAST_REQUESTS_S: Final = 30
#: granian's threads that call the buffer, which only passes requests on and keeps pieces of bodies.
_GRANIAN_THREADS: Final = 2
_LOOK_AT_MEMORY_EVERY_S: Final = 5
#: Signals that stop a process.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _AtOnce:
    """The event loop for granian: calls everything immediately."""

    def call_soon(self, callback: Callable[..., object], *arguments: object, context: object = None) -> None:  # noqa: ARG002 - asyncio's
        callback(*arguments)

    call_soon_threadsafe = call_soon


class _ToRequestBuffer(CallbackScheduler):
    """The scheduler that granian calls with each request."""

    def __init__(self, _loop: object, request_buffer: RequestBuffer, *_of_tasks: object) -> None:
        super().__init__()
        self._schedule_fn = request_buffer


def _end_by_signals() -> None:
    """Let a signal end this new process until _work() installs its own handlers.

    It was forked with the handlers of the parent process, which would only note the signal: the server would then not
    stop before it kills the remaining processes.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]
def _work(  # noqa: PLR0913, PLR0917 - granian's signature
    worker_id: int,
    application: Any,  # noqa: ANN401 - of WSGI
    sock: Any,  # noqa: ANN401 - this and the following are granian's
    ipc: object,
    _loop: object,
    runtime_mode: Any,  # noqa: ANN401
    runtime_threads: int,
    runtime_blocking_threads: int,
    blocking_threads: int,
    blocking_threads_idle_timeout: int,
    backpressure: int,
    _task_impl: object,
    http_mode: object,
    http1_settings: object,
    http2_settings: object,
    websockets: bool,  # noqa: FBT001
    static_path: object,
    _log_access_fmt: object,
    ssl_ctx: tuple[object, ...],
    scope_opts: dict[str, Any],
    metrics: object,
) -> None:
    """Run one process of the server, until it is stopped."""
    request_buffer = RequestBuffer(
        application,
        limits=BodyLimits.configured(),
        threads=blocking_threads,
        prefix=scope_opts.get("url_path_prefix") or "",
    )
    request_buffer.start()
    ended, stop = threading.Event(), WorkerSignal()
    stop.add_cb(ended.set)

    def end(_number: int, _frame: object) -> None:
        request_buffer.stop()
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, end)
    # NB: the package's type stubs lag behind these classes.
    make_worker: Any = RSGIWorker
    worker = make_worker(
        worker_id,
        sock,
        ipc,
        runtime_threads,
        runtime_blocking_threads,
        _GRANIAN_THREADS,
        blocking_threads_idle_timeout,
        backpressure,
        http_mode,
        http1_settings,
        http2_settings,
        websockets,
        static_path,
        *ssl_ctx,
        metrics,
    )
    loop = _AtOnce()
    serve_with = getattr(worker, WORKERS_METHODS[runtime_mode][(sock[0] or sock[1]).is_uds()])
    serve_with(_ToRequestBuffer(loop, request_buffer, None, None, None), loop, stop)
    ended.wait()


class WebServer(MPServer):
    """The server: processes that share one socket."""

    def _init_shared_socket(self) -> None:
        """Listen once for all processes, where granian would let each listen for itself (SO_REUSEPORT).

        With SO_REUSEPORT, connections to a process that ends would be lost; and any program of this account, even a
        payload, could listen beside them and receive a part of the requests.
        """
        if self.bind_uds:
            super()._init_shared_socket()  # type: ignore[no-untyped-call]
            return
        family = socket.AF_INET6 if ":" in self.bind_addr else socket.AF_INET
        self._sso = socket.create_server((self.bind_addr, self.bind_port), family=family, backlog=self.backlog)
        self._sso.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hold: Any = SocketHolder
        is_unix = False
        self._shd = hold(self._sso.fileno(), is_unix, self.backlog)


def serve(
    *,
    host: str,
    port: int,
    uds: Path | None,
    uds_permissions: int | None,
    workers: int,
    threads: int,
    head_s: float,
    max_rss_mb: int,
    prefix: str,
) -> None:
    """Serve the application until the process is stopped.

    Args:
        host: address to listen at.
        port: port to listen at.
        uds: path of a Unix socket to listen at instead.
        uds_permissions: mode of that socket; None: by the umask.
        workers: processes.
        threads: of each process, which is its number of concurrent requests.
        head_s: seconds in which the head of a request must arrive, and in which an idle connection ends.
        max_rss_mb: memory above which a process is replaced.
        prefix: of all paths.
    """
    os.register_at_fork(after_in_child=_end_by_signals)
    WebServer(
        "wms.wsgi:application",
        address=host,
        port=port,
        uds=uds,
        uds_permissions=uds_permissions,
        # The only interface for which granian allows several threads.
        interface=Interfaces.WSGI,
        workers=workers,
        blocking_threads=threads,
        # No client uses HTTP/2 without TLS, and one connection could carry many requests that never end.
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_MOST_CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=round(1000 * head_s), max_buffer_size=_BUFFER_BYTES),
        log_level=LogLevels.error,
        url_path_prefix=prefix or None,
        respawn_failed_workers=True,
        rss_sample_interval=_LOOK_AT_MEMORY_EVERY_S,
        workers_max_rss=max_rss_mb,
        workers_kill_timeout=_LAST_REQUESTS_S,
    ).serve(spawn_target=_work)
