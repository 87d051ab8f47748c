"""The data that all clients share, and their calls of the REST interface."""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.chaos.figures import Figures
from tests.chaos.ledger import Ledger

_API = "/api/v1"
_PATIENCE_S = 45.0


class GivenUpError(Exception):
    """The run was given up before a request was answered."""


class Answer(NamedTuple):
    """The status and the body of an answer; status None: there was none, or only a part."""

    status: int | None
    body: Any = None
    retry_after_s: float = 1.0


@dataclass(kw_only=True)
class World:
    """The data that all clients of a run share: the address, the ledger, and the events that end their work."""

    #: Of the proxy.
    url: str
    ledger: Ledger
    figures: Figures
    payload: Callable[[float], Mapping[str, object]]
    with_agents: bool
    #: Submitters stop; then pilots stop; then nobody waits for an answer any more.
    submitted: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)
    given_up: Event = field(default_factory=Event)

    def give_up(self) -> None:
        """Let all clients end."""
        for event in (self.submitted, self.over, self.given_up):
            event.set()


class Caller:
    """A client of the REST interface with one credential."""

    def __init__(self, world: World, credential: str = "") -> None:
        self._world = world
        self._address = urlsplit(world.url).netloc
        self.credential = credential

    def once(self, method: str, path: str, body: object = None, *, content: tuple[str, bytes] | None = None) -> Answer:
        """Send a request; return its answer, or that there was none."""
        kind, data = content or ("application/json", b"" if body is None else json.dumps(body).encode())
        headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {self.credential}"} if self.credential else {})
        connection = http.client.HTTPConnection(self._address, timeout=_PATIENCE_S)
        try:
            connection.request(method, _API + path, data or None, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            return Answer(None)
        finally:
            connection.close()
        is_json = text and response.headers.get_content_type().endswith("json")
        retry_after_s = float(response.headers.get("Retry-After", 1))
        return Answer(response.status, json.loads(text) if is_json else text, retry_after_s)

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """Repeat a request that may be repeated until it is answered.

        Raises:
            GivenUpError: it was not, to the end of the run.
        """
        while not self._world.given_up.is_set():
            answer = self.once(method, path, body, **more)
            if answer.status is not None and answer.status < 500 and answer.status != 429:
                return answer
            self._world.given_up.wait(min(1.0, answer.retry_after_s))
        raise GivenUpError(f"{method} {path}")
