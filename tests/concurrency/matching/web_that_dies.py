"""A web process that ends by SIGKILL at one step of its first match; a program of test_killed_web.

It prints its port when it is ready. Argument: the name of a step.
"""

import os
import signal
import sys
from pkgutil import resolve_name
from unittest.mock import patch
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.core.wsgi import get_wsgi_application

#: By step: the function at which it dies instead of calling it.
BEFORE = {
    "before the pilot is known": "matching.services.match.binding_of",
    "before the task queues are known": "taskqueues.services.index.shared.SharedIndex.current",
    "before a task queue is drawn": "matching.domain.draw.Lottery.draw",
    "before the claim is sent": "matching.services.search.claim",
    "before the answer is written": "matching.api.views.lease_out",
}
#: By step: the function after which it dies.
AFTER = {"after the claim has committed": "matching.services.search.claim"}


class Quiet(WSGIRequestHandler):
    """A handler without logs."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Write no log."""


def die(*_: object, **__: object) -> None:
    """End as by kill -9, without cleaning up."""
    os.kill(os.getpid(), signal.SIGKILL)


def arrange(step: str) -> None:
    """Make this process end at the step."""
    if step in BEFORE:
        patch(BEFORE[step], die).start()
    if step in AFTER:
        work = resolve_name(AFTER[step])
        patch(AFTER[step], lambda *given, **named: die(work(*given, **named))).start()


def main(step: str) -> None:
    """Serve until killed."""
    django = get_wsgi_application()
    # As wms.wsgi; by name, because these modules import models, which are loaded only now.
    in_front = resolve_name("wms.kernel.fast.application:FastApplication")
    application = in_front(django, resolve_name("matching.urls:fast_views"))
    arrange(step)
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
