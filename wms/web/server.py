"""granian's server, with a request buffer in place of its own interfaces to Python.

With its WSGI interface an answering thread waits for each body, so that a few silent clients stop the server. With its
RSGI interface an event loop runs between granian's threads and ours, which costs 50 µs a request, a tenth of a
heartbeat. Here its RSGI worker calls the buffer in its threads, and again when a piece of a body arrives: the "loop"
that it gets calls at once what a real one would schedule (ADR 46). The buffer passes the request to threads of ours.
"""

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from granian._granian import CallbackScheduler, RSGIWorker, SocketHolder, WorkerSignal
from granian.constants import RuntimeModes
from granian.server.common import WORKERS_METHODS
from granian.server.mp import MPServer, WorkerProcess

from wms.kernel import pulse
from wms.kernel.processes import is_stopped
from wms.web.request_buffer import RequestBuffer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

#: granian's threads that call the buffer, which only passes requests on and keeps pieces of bodies.
_GRANIAN_THREADS: Final = 2
#: Seconds after which a process counts as well: those of granian's rule.
_WELL_AFTER_S: Final = 5.5
#: Longest pause before a process that has ended is started again; none if it lived for twice as long.
_LONGEST_PAUSE_S: Final = 5.0
#: Seconds for which a thread computes while another waits. Python's 5 ms would delay a match, which waits for the
#: database several times, by tens of milliseconds beside each page that is made.
_SWITCH_S: Final = 0.0005
#: Signals that stop a process.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _AtOnce:
    """The event loop for granian: calls everything immediately."""

    def call_soon(self, callback: Callable[..., object], *arguments: object, **_context: object) -> None:
        callback(*arguments)

    call_soon_threadsafe = call_soon


class _ToRequestBuffer(CallbackScheduler):
    """The scheduler that granian calls with each request."""

    def __init__(self, _loop: object, request_buffer: RequestBuffer, *_of_tasks: object) -> None:
        super().__init__()
        self._schedule_fn = request_buffer


def end_by_signals() -> None:
    """Let a signal end this new process until run_process() installs its own handlers.

    It was forked with the handlers of the parent process, which would only note the signal: the server would then not
    stop before it kills the remaining processes.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


class _Arguments(NamedTuple):
    """granian's arguments for a new process, in granian's order; Any: untyped there."""

    worker_id: int
    application: "WSGIApplication"
    sockets: Any
    ipc: object
    loop: object
    runtime_mode: RuntimeModes
    runtime_threads: int
    runtime_blocking_threads: int
    threads: int
    threads_idle_timeout: int
    backpressure: int
    task_impl: object
    http_mode: object
    http1_settings: object
    http2_settings: object
    websockets: bool
    static_path: object
    log_access_format: object
    tls: tuple[object, ...]
    scope_options: dict[str, str | None]
    metrics: object


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]
def run_process(*arguments: Any) -> None:  # noqa: ANN401 - granian's
    """Run one process of the server, until it is stopped."""
    given = _Arguments(*arguments)
    if at_start := getattr(given.application, "at_start", None):
        at_start()
    prefix = given.scope_options.get("url_path_prefix") or ""
    request_buffer = RequestBuffer(given.application, threads=given.threads, prefix=prefix)
    request_buffer.start()
    pulse.begin()
    sys.setswitchinterval(_SWITCH_S)
    ended, stop = threading.Event(), WorkerSignal()
    stop.add_cb(ended.set)

    def end(_number: int, _frame: object) -> None:
        request_buffer.stop()
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, end)
    worker, loop = _worker(given), _AtOnce()
    serve_with = getattr(worker, WORKERS_METHODS[given.runtime_mode][(given.sockets[0] or given.sockets[1]).is_uds()])
    serve_with(_ToRequestBuffer(loop, request_buffer, None, None, None), loop, stop)
    ended.wait()


def _worker(given: _Arguments) -> object:
    # NB: the package's type stubs lag behind this class.
    make: Any = RSGIWorker
    worker: object = make(
        given.worker_id,
        given.sockets,
        given.ipc,
        given.runtime_threads,
        given.runtime_blocking_threads,
        _GRANIAN_THREADS,
        given.threads_idle_timeout,
        given.backpressure,
        given.http_mode,
        given.http1_settings,
        given.http2_settings,
        given.websockets,
        given.static_path,
        *given.tls,
        given.metrics,
    )
    return worker


class WebServer(MPServer):
    """The server: processes that share one socket.

    granian ends all processes when one ends within 5.5 s of its start. Here that holds until one has lived longer, so
    that a start that must fail fails. From then on each is started again, after a pause that grows while it ends early.
    """

    _is_well = False
    _stopped: frozenset[int] | set[int] = frozenset()
    _pauses_s: Final[dict[int, float]] = {}

    def _respawn_workers(self, workers: list[int], spawn_target: Any, target_loader: Any, delay: float = 0) -> None:  # noqa: ANN401 - granian's
        now = time.monotonic()
        self._is_well |= any(now - process.birth > _WELL_AFTER_S for process in self.wrks)
        # Without a delay they have failed; with one they live, and are replaced.
        if self._is_well and not delay:
            self._wait_before_restart(workers, now)
        if not self.interrupt_signal:
            super()._respawn_workers(workers, spawn_target, target_loader, delay)
        if self._is_well:
            self.respawned_wrks.clear()

    def _handle_rss_signal(self, spawn_target: Any, target_loader: Any) -> None:  # noqa: ANN401 - granian's
        """Look at the processes, each few seconds."""
        stopped = {process.idx for process in self.wrks if is_stopped(process.inner.pid)}
        for index in sorted(stopped - self._stopped):
            sys.stderr.write(f"Process {index + 1} of the web server is stopped, by a signal or a debugger.\n")
        self._stopped = stopped
        pulse.send()
        super()._handle_rss_signal(spawn_target, target_loader)  # type: ignore[no-untyped-call]

    def _wait_before_restart(self, workers: list[int], now: float) -> None:
        for index in workers:
            process = self.wrks[index]
            lived_s = now - process.birth
            before_s = 0.0 if lived_s > _LONGEST_PAUSE_S * 2 else self._pauses_s.get(index, 0.0)
            self._pauses_s[index] = min(max(0.25, 2 * before_s), _LONGEST_PAUSE_S)
            sys.stderr.write(
                f"Process {index + 1} of the web server ended after {lived_s:.0f} s with exit code "
                f"{process.inner.exitcode}; it is started again in {self._pauses_s[index]:g} s.\n"
            )
        until = now + max(self._pauses_s[index] for index in workers)
        while not self.interrupt_signal and (left_s := until - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.1))

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
