"""The version of the server, and clients that are too old for it."""

from typing import TYPE_CHECKING

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.api.matching.conftest import offer
from tests.api.matching.test_fast_requests import PLAIN, token_of
from tests.factories import make_pilot
from tests.problems import MEDIA_TYPE, of_problem
from tests.tables import checksums
from tests.wsgi import FastClient
from wms.kernel import middleware
from wms.kernel.middleware import oldest_client, too_old
from wms.kernel.rest.views import API_VERSION
from wms.wire.protocol import API_V1
from wms.wire.version import __version__

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

OLD = {"user-agent": "wms-client/0.0.9"}


@pytest.mark.parametrize("headers", [{}, OLD, {"authorization": "Bearer nonsense"}])
def test_everybody_may_read_the_version(headers: dict[str, str]) -> None:
    answer = Client(headers=headers).get(API_V1)
    assert answer.status_code == 200
    assert answer.json() == {"version": __version__, "api_version": 1, "oldest_client": oldest_client()}
    assert f"/api/v{API_VERSION}/" == API_V1
    assert Client(headers={"accept": "text/csv"}).get(API_V1).status_code == 406


def test_the_client_of_this_version_is_served() -> None:
    assert too_old(f"wms-client/{__version__}") is None


@pytest.mark.parametrize(
    ("user_agent", "refused"),
    [
        ("wms-client/1.9.9", "1.9.9"),
        ("wms-client/0.10.20 Python/3.9", "0.10.20"),
        ("wms-client/1.10.1rc1", "1.10.1"),
        ("wms-client/1.10.2", None),
        ("wms-client/1.10.10", None),
        ("wms-client/2.0.0", None),
        ("wms-client/new", None),
        ("wms-client/1.1", None),
        ("wms-client/" + "9" * 10_000, None),
        ("wms-cli", None),
        ("curl/0.0.1", None),
        ("", None),
    ],
)
def test_only_older_versions_of_the_client_are_too_old(
    monkeypatch: pytest.MonkeyPatch, user_agent: str, refused: str | None
) -> None:
    monkeypatch.setattr(middleware, "OLDEST_CLIENT", (1, 10, 2))
    assert too_old(user_agent) == refused


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "address"), [("GET", "jobs/"), ("POST", "jobs/"), ("POST", "auth/token/"), ("GET", "nowhere/")]
)
def test_a_client_that_is_too_old_gets_instructions(
    django_assert_num_queries: DjangoAssertNumQueries, method: str, address: str
) -> None:
    before = checksums()
    with django_assert_num_queries(0):
        answer = Client(headers=OLD).generic(method, f"{API_V1}{address}", "{}", content_type=PLAIN)
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    status, code, detail = of_problem(answer.json())
    assert (answer.status_code, status, code) == (426, 426, "client_too_old")
    assert detail == (
        f"This server serves wms-client {oldest_client()} and newer, and yours is 0.0.9: install a newer one, for "
        "example with pip install --upgrade wms-client."
    )
    assert checksums() == before


@pytest.mark.django_db
def test_pages_and_error_pages_are_served_to_an_old_client() -> None:
    assert Client(headers=OLD).get(f"{API_V1}errors/client_too_old/").status_code == 200
    assert Client(headers=OLD).get("/healthz").status_code == 200


@pytest.mark.django_db
def test_the_fast_application_refuses_an_old_client() -> None:
    headers = {"authorization": f"Bearer {token_of(make_pilot())}"}

    def ask(client: Client, **more: str) -> "Answer":
        return client.post(f"{API_V1}matches/", offer(), content_type=PLAIN, headers={**headers, **more})

    assert ask(FastClient()).status_code == 204
    fast, ordinary = (ask(client, **OLD) for client in (FastClient(), Client()))
    assert fast.status_code == ordinary.status_code == 426
    assert fast.content == ordinary.content
