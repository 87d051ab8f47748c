"""Credentials: server and token, from the environment or from a file that only its owner can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from .connection import Connection, checked_url
from .errors import NotLoggedInError, WrongUsageError
from .wire.private_directories import make_private

DEFAULT_URL = "http://localhost:8000"


def file_of(environment: Mapping[str, str]) -> Path:
    """Return the file of the last log-in."""
    directory = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(directory) / "wms" / "login.json"


def store(server: Connection, *, insecure: bool, environment: Mapping[str, str]) -> Path:
    """Store server and token for later commands, in a file of mode 0600; *insecure*: sent unencrypted, too."""
    path = file_of(environment)
    make_private(path.parent)
    # A temporary file has mode 0600 from the start, whatever mode the old file had.
    with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump({"server": server.url, "token": server.token} | ({"insecure": True} if insecure else {}), file)
    Path(file.name).replace(path)
    return path


def known_url(environment: Mapping[str, str]) -> str:
    """Return the server used by default."""
    return environment.get("WMS_SERVER_URL") or _stored(environment).server.url or DEFAULT_URL


def logged_in(environment: Mapping[str, str]) -> Connection:
    """Return the server with its token: WMS_SERVER_URL and WMS_TOKEN, else those of the last log-in.

    Raises:
        NotLoggedInError: there is no token for this server.
        WrongUsageError: the address is not valid or not encrypted, or the file is damaged.
    """
    stored = _stored(environment)
    known = known_url(environment)
    is_stored = stored.server.url == known.rstrip("/")
    insecure = environment.get("WMS_INSECURE") == "1" or (is_stored and stored.insecure)
    url = checked_url(known, insecure=insecure)
    # A token is sent only to the server that issued it.
    token = environment.get("WMS_TOKEN") or (stored.server.token if is_stored else "")
    if not token:
        raise NotLoggedInError(f"You are not logged in at {url}; run `wms login` first, or set WMS_TOKEN.")
    return Connection(url, token=token)


class _Stored(NamedTuple):
    server: Connection
    #: Whether the user allowed to send the token unencrypted.
    insecure: bool


def _stored(environment: Mapping[str, str]) -> _Stored:
    path = file_of(environment)
    try:
        record = json.loads(path.read_text())
        server = Connection(str(record["server"]), token=str(record["token"]))
        return _Stored(server, bool(record.get("insecure")))
    except FileNotFoundError:
        return _Stored(Connection(""), insecure=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongUsageError(f"{path} cannot be read; remove it and run `wms login` again.") from error
