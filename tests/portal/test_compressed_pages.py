"""Pages and answers of REST as they are sent to browsers: compressed, unless they show a secret."""

import gzip
import re
from typing import Any

import pytest
from django.test import Client

from tests.factories import make_job, make_site, make_user
from tests.portal.conftest import ClientOf
from tests.second_factors import code_of
from wms.accounts.models import VO, Group, User

pytestmark = pytest.mark.django_db

BROWSER = {"Accept-Encoding": "gzip, deflate, br"}


def is_compressed(response: Any) -> bool:
    return bool(response.get("Content-Encoding") == "gzip")


def test_a_page_is_compressed(portal: Client) -> None:
    plain, packed = portal.get("/accounts/groups/"), portal.get("/accounts/groups/", headers=BROWSER)
    assert is_compressed(packed)
    assert not is_compressed(plain)
    assert len(packed.content) < len(plain.content) / 2
    token = re.compile(rb'name="csrfmiddlewaretoken" value="\w+"')
    assert token.sub(b"", gzip.decompress(packed.content)) == token.sub(b"", plain.content)


def test_the_csrf_token_is_another_text_in_each_answer(portal: Client) -> None:
    """So that its length together with a guess says nothing (BREACH)."""
    tokens = {re.search(rb'value="(\w{64})"', portal.get("/jobs/submit/").content)[1] for _ in range(5)}  # type: ignore[index]
    assert len(tokens) == 5


def test_pages_that_show_a_secret_are_not_compressed(portal: Client) -> None:
    responses = [
        portal.post("/accounts/tokens/", {"name": "laptop", "scope": "read", "days": "7"}, headers=BROWSER),
        portal.get("/accounts/tokens/", headers=BROWSER),
        portal.get("/accounts/password/link/", headers=BROWSER),
    ]
    assert b"wmsu_" in responses[0].content
    assert [is_compressed(response) for response in responses] == [False] * 3
    assert ["no-transform" in response["Cache-Control"] for response in responses] == [True] * 3


def test_keys_and_codes_of_second_factors_are_not_compressed(portal: Client) -> None:
    portal.post("/accounts/again/", {"password": "correct horse"})
    page = portal.get("/accounts/second-factor/app/", headers=BROWSER)
    secret = re.search(r'class="key">(\w+)<', page.content.decode())
    assert secret is not None
    portal.post("/accounts/second-factor/app/", {"code": code_of(secret[1])})
    codes = portal.get("/accounts/second-factor/codes/", headers=BROWSER)
    assert b"Each code logs you in once" in codes.content
    assert not is_compressed(page)
    assert not is_compressed(codes)


def test_links_and_tokens_of_the_administration_are_not_compressed(client_of: ClientOf, alice: User, vo: VO) -> None:
    operator, site = client_of(make_user(operator=True, staff=True)), make_site(vos=[vo])
    link = operator.post(f"/admin/accounts/user/{alice.pk}/password/", headers=BROWSER)
    action = {"action": "issue_registration_token", "_selected_action": site.pk}
    token = operator.post("/admin/resources/site/", action, headers=BROWSER)
    assert b'id="link"' in link.content
    assert b'id="token"' in token.content
    assert not is_compressed(link)
    assert not is_compressed(token)
    assert is_compressed(operator.get("/admin/", headers=BROWSER))


def test_long_lists_of_rest_are_compressed_and_short_answers_are_not(portal: Client, alice: User, group: Group) -> None:
    for _ in range(10):
        make_job(owner=alice, group=group)
    jobs = portal.get("/api/v1/jobs/", headers=BROWSER)
    assert is_compressed(jobs)
    assert gzip.decompress(jobs.content).startswith(b"{")
    assert not is_compressed(portal.get("/api/v1/auth/me/", headers=BROWSER))
