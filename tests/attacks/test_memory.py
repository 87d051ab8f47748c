"""Requests with ever new values leave nothing behind in a process but what its caches may hold (ADR 94)."""

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.factories import make_ce, make_group, make_queue, make_site, make_token, make_user
from wms.kernel.memo import BriefMemo, RecentlyUsed

#: Answers of one kind, each with another value.
Ask = Callable[[int], object]
WARM_UP, REQUESTS = 100, 500


def _wrong_tokens(client: APIClient) -> Ask:
    return lambda number: client.get("/api/v1/jobs/", HTTP_AUTHORIZATION=f"Bearer wmsp_{'e30.' * 2}{number}")


def _unknown_fields(client: APIClient) -> Ask:
    return lambda number: client.post("/api/v1/jobs/", {f"field{number}": 1}, format="json")


def _descriptions(client: APIClient) -> Ask:
    def ask(number: int) -> object:
        description = {"executable": f"{number}.sh", "cpu_time_s": 100 + number, "tags": [f"tag{number}"]}
        return client.post("/api/v1/jobs/rehearsal/", description, format="json")

    return ask


def _filters(client: APIClient) -> Ask:
    return lambda number: client.get("/api/v1/jobs/", {"name": f"name{number}*", "site": f"LCG.{number}.org"})


def _pages(client: APIClient) -> Ask:
    return lambda number: client.get("/jobs/", {"q": f"name:{number}* site:LCG.{number}.org"})


def _addresses(client: APIClient) -> Ask:
    languages = "abcdefghijklmnopqrstuvwxyz"
    return lambda number: client.get(
        f"/no-such-page-{number}/", HTTP_ACCEPT_LANGUAGE=f"{languages[number % 26]}{number}"
    )


def _caches() -> Iterator[RecentlyUsed[Any, Any] | BriefMemo[Any]]:
    """Yield the caches of all modules; those that were loaded before the tests are hidden from the collector."""
    for module in [*sys.modules.values()]:
        yield from (each for each in [*vars(module).values()] if isinstance(each, RecentlyUsed | BriefMemo))


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bound all caches of the process to a few entries, so that they are full after the warm-up."""
    for each in _caches():
        monkeypatch.setattr(each, "_most", 40)
    yield
    for each in _caches():
        if isinstance(each, RecentlyUsed):
            each.clear()


@pytest.mark.django_db
@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("kind", [_wrong_tokens, _unknown_fields, _descriptions, _filters, _pages, _addresses])
def test_requests_with_ever_new_values_leave_nothing_behind(kind: Callable[[APIClient], Ask]) -> None:
    alice = make_user(groups=[make_group()])
    make_queue(ce=make_ce(site=make_site()))
    client = APIClient()
    if kind is _pages:
        client.force_login(alice)
    elif kind is not _wrong_tokens:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(alice)}")
    ask, numbers = kind(client), count()

    def blocks_after(requests: int) -> int:
        for _ in range(requests):
            ask(next(numbers))
        gc.collect()
        return sys.getallocatedblocks()

    # The client of the tests keeps the last answer only.
    before = blocks_after(WARM_UP)
    after = blocks_after(REQUESTS)
    # Less than one object of each request.
    assert after - before < REQUESTS / 2, f"{(after - before) / REQUESTS:.2f} blocks of each request"
