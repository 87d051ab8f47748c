"""The Operations page: for operators only, with each tile in words, and the button that asks failing CEs again."""

from http import HTTPStatus

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from pilots.models import CEHealth
from tests.factories import NOW, make_black_hole, make_ce, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO
from wms.kernel import liveness

pytestmark = pytest.mark.django_db

PAGE = "/operations/"
AGAIN = "/operations/ask-again/"


@pytest.fixture
def operator(client_of: ClientOf) -> Client:
    return client_of(make_user(username="olga", operator=True, staff=True))


def test_only_operators_see_the_page_and_its_link(
    operator: Client, portal: Client, vo: VO, client_of: ClientOf
) -> None:
    assert operator.get(PAGE).status_code == HTTPStatus.OK
    assert f'href="{PAGE}"' in operator.get("/").content.decode()
    for other in (portal, client_of(make_user(manages=[vo]))):
        assert other.get(PAGE).status_code == HTTPStatus.NOT_FOUND
        assert other.post(AGAIN).status_code == HTTPStatus.NOT_FOUND
        assert f'href="{PAGE}"' not in other.get("/").content.decode()


def test_trouble_is_said_in_words_with_what_to_do(operator: Client) -> None:
    liveness.report(liveness.BEAT)
    CEHealth.objects.create(ce=make_ce(name="ce.cern.ch"), failures=1, trouble="no route to host")
    text = operator.get(PAGE).content.decode()
    assert "ce.cern.ch of " in text
    assert "no route to host" in text
    assert "Repair what the sentence names" in text
    assert '<span class="hidden">Trouble:</span>' in text
    assert '<span class="hidden">Well:</span>' in text
    assert "matching.expire_leases" in text


def test_ask_again_ends_the_pauses_of_computing_elements_that_fail(
    operator: Client, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: object
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "wms.portal.views.operations.serve_ce.apply_async", lambda kwargs, **_: asked.append(kwargs["ce_id"])
    )
    failing, well = (CEHealth.objects.create(ce=make_ce(), ask_after=NOW, trouble=trouble) for trouble in ("no", ""))
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        answer = operator.post(AGAIN, follow=True)
    assert "asked again now: 1." in answer.content.decode()
    assert asked == [failing.ce_id]
    assert list(CEHealth.objects.filter(ask_after=None)) == [failing]
    assert CEHealth.objects.get(pk=well.pk).ask_after == NOW


def test_the_page_needs_no_more_queries_for_thirty_in_trouble(
    operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    operator.get(PAGE)
    for number in range(30):
        make_black_hole(host_name=f"node{number}")
        CEHealth.objects.create(ce=make_ce(), failures=1, trouble="no route to host")
    with django_assert_max_num_queries(25):
        assert operator.get(PAGE).status_code == HTTPStatus.OK
