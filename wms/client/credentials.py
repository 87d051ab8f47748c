"""Credentials: server and token, from the environment or from a file that only its owner can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from .connection import Connection, checked_url
from .errors import NotLoggedInError, WrongUsageError
from .wire.private_directories import make_private

DEFAULT_URL = "http://localhost:8000"


def file_of(environment: Mapping[str, str]) -> Path:
    """Return the file of the last log-in."""
    directory = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(directory) / "wms" / "login.json"


def store(server: Connection, *, environment: Mapping[str, str]) -> Path:
    """Store server and token for later commands, in a file of mode 0600."""
    path = file_of(environment)
    make_private(path.parent)
    # A temporary file has mode 0600 from the start, whatever mode the old file had.
    with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump({"server": server.url, "token": server.token}, file)
    Path(file.name).replace(path)
    return path


def known_url(environment: Mapping[str, str]) -> str:
    """Return the server used by default."""
    return environment.get("WMS_SERVER_URL") or _stored(environment).url or DEFAULT_URL


def logged_in(environment: Mapping[str, str]) -> Connection:
    """Return the server with its token: WMS_SERVER_URL and WMS_TOKEN, else those of the last log-in.

    Raises:
        NotLoggedInError: there is no token for this server.
        WrongUsageError: the address is not valid, or the file is damaged.
    """
    stored = _stored(environment)
    url = checked_url(known_url(environment))
    # A token is sent only to the server that issued it.
    token = environment.get("WMS_TOKEN") or (stored.token if stored.url == url else "")
    if not token:
        raise NotLoggedInError(f"You are not logged in at {url}; run `wms login` first, or set WMS_TOKEN.")
    return Connection(url, token=token)


def _stored(environment: Mapping[str, str]) -> Connection:
    path = file_of(environment)
    try:
        record = json.loads(path.read_text())
        return Connection(str(record["server"]), token=str(record["token"]))
    except FileNotFoundError:
        return Connection("")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongUsageError(f"{path} cannot be read; remove it and run `wms login` again.") from error
