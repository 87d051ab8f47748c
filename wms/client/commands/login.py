"""Commands about the account: login, logout, whoami."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import suppress
from getpass import getpass
from typing import NamedTuple

from .. import credentials
from ..connection import Connection, checked_url
from ..device_log_in import log_in_by_provider
from ..errors import ServerRefusedError, WrongUsageError
from ..known_devices import devices, keep_devices
from ..terminal.tables import Facts
from ..terminal.text import moment, plain
from ..wire.protocol import API_V1
from .command import Command, CommandOutput, CommandSession


def _configure_login(parser: ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="address of the server; left out: prompt")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="send password and token unencrypted to an http:// address of another machine; later commands do so too",
    )
    parser.add_argument(
        "--scope",
        choices=("read", "submit", "manage", "administer"),
        metavar="SCOPE",
        help="rights of the token: read, submit, manage (default: all but the configuration) or administer",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--user", metavar="NAME", help="user name; left out: prompt, as always for the password")
    way.add_argument(
        "--token", action="store_true", help="prompt for a token that you made on the page of your account"
    )
    way.add_argument(
        "--oidc", nargs="?", const="", metavar="PROVIDER", help="log in by your institute's account, in a browser"
    )


def _login(options: Namespace, session: CommandSession) -> CommandOutput:
    """Prompt for missing values, log in, and store the token."""
    if options.token and options.scope is not None:
        raise WrongUsageError("A token has the rights with which it was made; leave out --scope, or --token.")
    environment = session.environment
    default = credentials.known_url(environment)
    url = checked_url(options.server or _prompt(f"Server [{default}]: ") or default, insecure=options.insecure)
    if options.oidc is not None:
        logged_in = _by_provider(url, options.oidc, scope=options.scope)
    elif options.token:
        logged_in = _by_token(url)
    else:
        logged_in = _by_password(url, options.user, environment, scope=options.scope)
    return _stored(logged_in, insecure=options.insecure, environment=environment)


class _LoggedIn(NamedTuple):
    server: Connection
    username: str
    #: None: of a token that was made elsewhere.
    expires_at: str | None


def _by_password(url: str, user: str | None, environment: Mapping[str, str], *, scope: str | None) -> _LoggedIn:
    username = user or _prompt("User: ")
    password = _secret("Password: ")
    if not username or not password:
        raise WrongUsageError("A log-in needs a user name and a password.")
    body = {"username": username, "password": password, **({} if scope is None else {"scope": scope})}
    server = Connection(url, cookies=(cookies := devices(environment)))
    try:
        answer = server.post(f"{API_V1}auth/token/", body, expects="token")
    except ServerRefusedError as error:
        if error.code != "code_needed":
            raise
        body["code"] = _prompt("Code of your second factor: ")
        answer = server.post(f"{API_V1}auth/token/", body, expects="token")
    keep_devices(cookies)
    return _LoggedIn(Connection(url, token=answer["token"]), username, answer["expires_at"])


def _by_token(url: str) -> _LoggedIn:
    token = _secret("Token: ").strip()
    if not token:
        raise WrongUsageError("No token was given; make one on the page of your account in the portal.")
    server = Connection(url, token=token)
    return _LoggedIn(server, _username_of(server), None)


def _by_provider(url: str, provider: str, *, scope: str | None) -> _LoggedIn:
    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    answer = log_in_by_provider(Connection(url), provider, scope=scope, tell=tell, ask=_prompt)
    server = Connection(url, token=answer["token"])
    return _LoggedIn(server, _username_of(server), answer["expires_at"])


def _username_of(server: Connection) -> str:
    return str(server.get(f"{API_V1}auth/me/", expects="username")["username"])


def _stored(logged_in: _LoggedIn, *, insecure: bool, environment: Mapping[str, str]) -> CommandOutput:
    server, username, expires_at = logged_in
    path = credentials.store(server, insecure=insecure, environment=environment)
    result = {"server": server.url, "username": username, "expires_at": expires_at, "stored_in": str(path)}
    until = ", by the token" if expires_at is None else f" until {moment(expires_at)}"
    return CommandOutput(result, [f"Logged in at {server.url} as {plain(username)}{until}."])


def _secret(question: str) -> str:
    """Return the line that is typed unseen at a terminal, or is given as standard input."""
    return getpass(question) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _prompt(question: str) -> str:
    """Return the typed line; the question goes to standard error, as standard output is for the answer."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _nothing(_: ArgumentParser) -> None:
    """Add no argument."""


def _logout(_: Namespace, session: CommandSession) -> CommandOutput:
    """Revoke the token, and forget it; the next log-in is to the same server unless another is named."""
    server = session.server
    with suppress(ServerRefusedError):  # the token is not valid any more
        server.post(f"{API_V1}auth/revoke/")
    if not session.environment.get("WMS_TOKEN"):
        credentials.store(Connection(server.url), insecure=False, environment=session.environment)
    return CommandOutput({"server": server.url}, [f"Logged out at {server.url}; the token is revoked."])


def _whoami(_: Namespace, session: CommandSession) -> CommandOutput:
    profile = session.server.get(f"{API_V1}auth/me/", expects="username")
    facts = [
        ("user", profile["username"]),
        ("server", session.server.url),
        ("groups", [group["name"] for group in profile["groups"]]),
        ("default group", profile["default_group"]),
        ("manages", profile["managed_vos"]),
        ("roles", profile["roles"]),
        ("certificates", profile["dns"]),
    ]
    return CommandOutput(profile, [Facts(facts)])


COMMANDS = {
    "login": Command(_configure_login, _login),
    "logout": Command(_nothing, _logout),
    "whoami": Command(_nothing, _whoami),
}
