"""Requests that a fast view answers itself, and those that it passes to the application with their body."""

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

import pytest
from pytest_django import Settings
from rest_framework.exceptions import AuthenticationFailed

from matching.urls import fast_views, urlpatterns
from wms.kernel.callers import current_request_id
from wms.kernel.counters import REQUESTS
from wms.kernel.errors import ConflictError
from wms.kernel.fast.application import FastApplication
from wms.kernel.fast.serializers import FastSerializer
from wms.kernel.fast.views import FastAnswer, FastView
from wms.kernel.rest import BearerAuthentication, WholeNumber

APPLICATION = (b"the application got ", "418 I'm a Teapot")


class Toys(BearerAuthentication):
    prefix = "toy_"

    def principal_of(self, token: str) -> tuple[str, str]:
        if token != "toy_bear":
            raise AuthenticationFailed
        return "principal", token


class ToyIn(FastSerializer):
    number = WholeNumber()


class ToyView(FastView):
    callers = (Toys(),)
    fast_path = re.compile(r"/toys/(\w+)/")
    fast_body = ToyIn

    @staticmethod
    def fast_answer(credential: str, values: dict[str, Any], name: str) -> FastAnswer:
        if values["number"] == -1:
            raise ConflictError("There is no such toy left.")
        if values["number"] == -2:
            return FastAnswer(None, "204 No Content")
        body = {"half": 10 // (values["number"] - 1), "name": name, "credential": credential}
        return FastAnswer(body, "201 Created", [("X-Toy", "yes")])


def request(body: bytes, **changed: str) -> dict[str, Any]:
    """Return the environment of a request."""
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/toys/ball/",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": "Bearer toy_bear",
        "HTTP_HOST": "testserver",
        "wsgi.input": BytesIO(body),
        **changed,
    }


@pytest.fixture
def ids() -> list[str]:
    """The ids of the answered requests."""
    return []


@pytest.fixture
def ask(ids: list[str]) -> Callable[..., tuple[bytes, str, dict[str, str]]]:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(APPLICATION[1], [])
        return [APPLICATION[0], environ["wsgi.input"].read()]

    def ask(body: bytes, **changed: str) -> tuple[bytes, str, dict[str, str]]:
        seen: list[Any] = []
        server = FastApplication(application, {"toys": ToyView})
        content = b"".join(server(request(body, **changed), lambda *answer: seen.extend(answer)))  # type: ignore[arg-type]
        headers = dict(seen[1])
        ids.append(headers.pop("X-Request-ID"))
        return content, seen[0], headers

    return ask


def test_a_valid_request_is_answered_with_status_headers_and_groups_of_the_path(ask: Callable[..., Any]) -> None:
    content, status, headers = ask(b'{"number": 3}')
    assert (content, status) == (b'{"half":5,"name":"ball","credential":"toy_bear"}', "201 Created")
    assert (headers["X-Toy"], headers["Content-Length"]) == ("yes", str(len(content)))


def test_an_answer_without_content_has_no_type(ask: Callable[..., Any]) -> None:
    content, status, headers = ask(b'{"number": -2}')
    assert (content, status, headers["Content-Length"]) == (b"", "204 No Content", "0")
    assert "Content-Type" not in headers


def test_refusals_of_the_function_are_passed_to_the_view() -> None:
    passed: list[dict[str, Any]] = []

    def application(environ: dict[str, Any], _start_response: Any) -> list[bytes]:
        passed.append(environ)
        return []

    body = b'{"number": -1}'
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/toys/ball/",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": "Bearer toy_bear",
        "HTTP_HOST": "testserver",
        "wsgi.input": BytesIO(body),
    }
    FastApplication(application, {"toys": ToyView})(environ, lambda *_: None)  # type: ignore[arg-type]
    assert passed == [environ]
    assert isinstance(environ[ToyView.REFUSAL], ConflictError)


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b'{"number": 1}', {}),  # it raises
        (b'{"number": "3"}', {}),
        (b'{"numbr": 3}', {}),
        (b"{", {}),
        (b'{"number": 3}', {"PATH_INFO": "/toys/ball"}),
        (b'{"number": 3}', {"REQUEST_METHOD": "PUT"}),
        (b'{"number": 3}', {"QUERY_STRING": "a=1"}),
        (b'{"number": 3}', {"HTTP_AUTHORIZATION": "Bearer toy_doll"}),
        (b'{"number": 3}', {"HTTP_AUTHORIZATION": "Bearer wmsu_bear"}),
        (b'{"number": 3}', {"HTTP_HOST": "elsewhere.example"}),
        (b'{"number": 3}', {"HTTP_ACCEPT": "text/html"}),
        (b'{"number": 3}', {"HTTP_CONTENT_ENCODING": "gzip"}),
        (b'{"number": 3}', {"HTTP_AUTHORIZATION": "Bearer toy_bear toy_bear"}),
    ],
)
def test_other_requests_are_passed_on_with_their_body(
    ask: Callable[..., Any], body: bytes, changed: dict[str, str]
) -> None:
    assert ask(body, **changed) == (APPLICATION[0] + body, APPLICATION[1], {})


def test_its_answers_are_counted_and_those_of_the_application_are_not(ask: Callable[..., Any]) -> None:
    def counted(status: str) -> float:
        return float(REQUESTS.labels("toys", status)._value.get())

    before = counted("2xx"), counted("4xx")
    ask(b'{"number": 3}')
    ask(b'{"number": -2}')
    ask(b'{"number": -1}')
    assert (counted("2xx"), counted("4xx")) == (before[0] + 2, before[1])


def test_the_names_of_the_fast_views_are_those_of_their_addresses() -> None:
    views = {pattern.name: pattern.callback.view_class for pattern in urlpatterns if pattern.name in fast_views}  # type: ignore[attr-defined]
    assert views == dict(fast_views)


BY_EACH: Final = pytest.mark.parametrize("body", [b'{"number": 3}', b'{"number": "3"}'], ids=["fast", "application"])


@BY_EACH
@pytest.mark.parametrize("brought", ["a", "7f0c.A_b-9", "x" * 64])
def test_the_id_that_a_request_brings_is_returned(
    ask: Callable[..., Any], ids: list[str], body: bytes, brought: str
) -> None:
    ask(body, HTTP_X_REQUEST_ID=brought)
    assert ids == [brought]


@BY_EACH
@pytest.mark.parametrize("brought", ["", "x" * 65, "a b", "a\n", "ä", "<b>"])
def test_a_request_without_a_valid_id_gets_a_new_one(
    ask: Callable[..., Any], ids: list[str], body: bytes, brought: str
) -> None:
    ask(body, HTTP_X_REQUEST_ID=brought)
    ask(body)
    assert len({*ids, brought}) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}", request_id) for request_id in ids)


@BY_EACH
def test_the_id_is_that_of_the_lines_of_the_request_and_of_no_other(ids: list[str], body: bytes) -> None:
    seen: list[str] = []

    class View(ToyView):
        @staticmethod
        def fast_answer(*_arguments: object) -> FastAnswer:
            seen.append(current_request_id.get())
            return FastAnswer({})

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append(current_request_id.get())
        start_response("200 OK", [])
        return [b""]

    list(FastApplication(application, {"toys": View})(request(body, HTTP_X_REQUEST_ID="one"), lambda *_: None))  # type: ignore[arg-type]
    assert seen == ["one"]
    assert current_request_id.get() == ""


def test_the_access_log_is_off_unless_it_is_set(
    ask: Callable[..., Any], caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    with caplog.at_level("INFO"):
        ask(b'{"number": 3}')
        assert caplog.records == []
        settings.WMS_ACCESS_LOG = True
        ask(b'{"number": 3}')
    (record,) = caplog.records
    facts = {name: getattr(record, name) for name in ("method", "route", "status", "caller")}
    assert facts == {"method": "POST", "route": "toys", "status": 201, "caller": "principal"}
    assert record.duration_s >= 0  # type: ignore[attr-defined]
