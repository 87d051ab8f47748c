"""The client of the REST interface: the command ``wms`` and the Python library; it needs only the standard library.

    from wms_client import Client

    submission = Client().submit(executable="./run.sh", input_sandbox=["run.sh"])
    for job in submission:                    # each job when it has ended
        print(job.id, job.status)
    submission.output("results")

Installed it is the package ``wms_client``; in the repository, ``wms.client``. Its modules import each other relatively,
and run with Python 3.9 (``docs/adr/0068-the-client-is-a-distribution-of-its-own.md``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .wire.version import __version__

if TYPE_CHECKING:
    from .client import Client
    from .errors import ClientError, NotLoggedInError, NotReachableError, ServerRefusedError, WrongUsageError
    from .job import Job
    from .submission import StillRunningError, Submission

__all__ = [
    "Client",
    "ClientError",
    "Job",
    "NotLoggedInError",
    "NotReachableError",
    "ServerRefusedError",
    "StillRunningError",
    "Submission",
    "WrongUsageError",
    "__version__",
]

#: Loaded when they are first used, so that the command starts fast.
_MODULES = {
    "Client": "client",
    "Job": "job",
    "StillRunningError": "submission",
    "Submission": "submission",
    **dict.fromkeys(
        ("ClientError", "NotLoggedInError", "NotReachableError", "ServerRefusedError", "WrongUsageError"), "errors"
    ),
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
