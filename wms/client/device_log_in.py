"""``wms login --oidc``: a log-in that the user confirms in a browser on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from .connection import Connection, Record
from .errors import NotReachableError, ServerRefusedError, WrongUsageError
from .terminal.text import plain
from .wire.protocol import API_V1

#: Seconds added to the interval when the server asks for it, or does not answer (RFC 8628, §3.5).
SLOWER_S = 5
#: Failed requests in a row after which the log-in ends.
MOST_FAILURES = 5


def log_in_by_provider(
    server: Connection, wanted: str, *, scope: str | None, tell: Callable[[str], object], ask: Callable[[str], str]
) -> Record:
    """Log in by a provider of OpenID Connect, and return the server's answer with the token.

    Args:
        server: where.
        wanted: id of the provider; empty: the only one.
        scope: rights of the token; None: the server's default.
        tell: shows a line to the user.
        ask: shows a question to the user and returns the answer.

    Raises:
        ServerRefusedError: the log-in was refused, or its time is over.
        WrongUsageError: there is no such provider, or several and none is named.
    """
    address = f"{API_V1}auth/oidc/{_provider(server, wanted)}"
    chosen = {} if scope is None else {"scope": scope}
    begun = server.post(f"{address}/device/", {}, expects="handle")
    tell(f"Open {plain(begun['verification_uri'])} in a browser and enter the code {plain(begun['user_code'])}")
    if begun["verification_uri_complete"]:
        tell(f"or open {plain(begun['verification_uri_complete'])}")
    tell("Confirm only a log-in that you have begun yourself. Waiting …")
    answer = _confirmed(server, f"{address}/token/", begun, chosen)
    while "token" not in answer:
        body = {**chosen, "handle": answer["handle"], "code": ask("Code of your second factor: ")}
        try:
            answer = server.post(f"{address}/token/", body, expects="expires_at")
        except ServerRefusedError as error:
            if error.code != "wrong_code":
                raise
            tell(plain(error))
    return answer


def _provider(server: Connection, wanted: str) -> str:
    names = [str(provider["id"]) for provider in server.get(f"{API_V1}auth/oidc/", expects="providers")["providers"]]
    if wanted in names:
        return wanted
    if not wanted and len(names) == 1:
        return names[0]
    listed = ", ".join(map(plain, names))
    wrong = f"There is no provider {plain(wanted)}" if wanted else "There are several providers"
    raise WrongUsageError(f"{wrong}; give one of {listed}, such as wms login --oidc {plain(names[0])}.")


def _confirmed(server: Connection, path: str, begun: Record, chosen: Record) -> Record:
    """Return the answer with the token, or the one that asks for the code of a second factor."""
    handle, interval_s, failures = begun["handle"], max(1, int(begun["interval_s"])), 0
    while True:
        time.sleep(interval_s)
        try:
            answer = server.post(path, {**chosen, "handle": handle}, expects="expires_at")
        except NotReachableError:
            failures += 1
            interval_s += SLOWER_S
            if failures > MOST_FAILURES:
                raise
            continue
        failures = 0
        if "token" in answer or answer["code_needed"]:
            return answer
        handle = answer["handle"]
        if answer["slow_down"]:
            interval_s += SLOWER_S
