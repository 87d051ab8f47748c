"""Users over HTTP: one request after another on a keep-alive connection."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from tests.benchmarks.measuring import NotMeasurableError, timed
from tests.factories import make_token
from wms.accounts.models import User

#: What takes longer is not waited for.
_WITHIN_S = 600


class Person:
    """A user with a connection to a web server of this machine."""

    def __init__(self, connection: http.client.HTTPConnection, token: str) -> None:
        self._connection = connection
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, body: object, *, expected: HTTPStatus) -> tuple[Any, float]:
        """Return the answer, and the seconds until it was complete; the body is prepared before.

        Raises:
            NotMeasurableError: the status is not the expected one.
        """
        data = json.dumps(body).encode()
        (status, answer), taken_s = timed(lambda: self._ask(path, data))
        if status != expected:
            raise NotMeasurableError(f"POST {path} was answered with {status}: {answer[:300].decode()}")
        return json.loads(answer), taken_s

    def _ask(self, path: str, data: bytes) -> tuple[int, bytes]:
        try:
            return self._ask_once(path, data)
        except (BrokenPipeError, ConnectionResetError):
            # A server closes connections that it does not hear of for long.
            self._connection.close()
            return self._ask_once(path, data)

    def _ask_once(self, path: str, data: bytes) -> tuple[int, bytes]:
        self._connection.request("POST", path, data, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()


@contextmanager
def person(user: User, *, port: int) -> Iterator[Person]:
    """Connect this user to the server at *port*."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WITHIN_S)
    try:
        yield Person(connection, make_token(user))
    finally:
        connection.close()
