"""A test client whose requests pass the served WSGI application, FastApplication included."""

from collections.abc import Iterable
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase, ResponseHeaders
from django.test import Client
from django.test.client import ClientHandler

from matching.urls import fast_views
from wms.kernel.fast.application import FastApplication
from wms.kernel.request_ids import HEADER


class FastClient(Client):
    """Django's test client, but through the WSGI application instead of Django's handlers."""

    def __init__(self) -> None:
        super().__init__(raise_request_exception=False, headers={"Host": "testserver"})
        self.handler = _FastHandler()


class _FastHandler(ClientHandler):
    def __call__(self, environ: dict[str, Any]) -> Any:
        """Return the application's answer."""
        answers: list[HttpResponseBase] = []
        ask_django = super().__call__

        def django(environ: dict[str, Any], _start_response: object) -> Iterable[bytes]:
            answers.append(ask_django(environ))
            return []

        def start_response(status: str, headers: list[tuple[str, str]], _error: object = None) -> Any:
            answer = HttpResponse(status=int(status[:3]))
            # The id differs for each request, and Django's answers get theirs behind this handler.
            answer.headers = ResponseHeaders({name: value for name, value in headers if name != HEADER})
            answers.append(answer)

        content = b"".join(FastApplication(django, fast_views)(environ, start_response))
        (answer,) = answers
        if not hasattr(answer, "wsgi_request"):
            assert isinstance(answer, HttpResponse)
            answer.content = content
            answer.wsgi_request = WSGIRequest(environ)  # type: ignore[attr-defined]
        return answer
