"""Whom the running code works for: a request, or a command. Set at the edges, read by the security log only."""

from contextvars import ContextVar
from typing import Final

from django.http import HttpRequest

#: The request that this thread answers (``wms.accounts.middleware``).
current_request: Final[ContextVar[HttpRequest | None]] = ContextVar("current_request", default=None)
#: What ``manage.py`` was called for, such as "token"; empty outside of it.
current_command: Final[ContextVar[str]] = ContextVar("current_command", default="")
