"""The caller of the running code, a request or a command: set at the edges, read by the security log and its lines."""

from contextvars import ContextVar
from typing import Final

from django.http import HttpRequest

#: The request that this thread answers (``wms.accounts.middleware``).
current_request: Final[ContextVar[HttpRequest | None]] = ContextVar("current_request", default=None)
#: The current ``manage.py`` command, such as "token"; empty outside of one.
current_command: Final[ContextVar[str]] = ContextVar("current_command", default="")
#: The id of the request that this thread answers, or whose task it executes (``wms.kernel.request_ids``); empty: none.
current_request_id: Final[ContextVar[str]] = ContextVar("current_request_id", default="")
