"""The addresses of pilots, by every kind of token."""

import pytest
from django.test import Client

from pilots.models import Pilot
from tests.api.pilots.credentials import CONFIG, CREDENTIALS, FIT, REGISTER, REPORT, bearer, post
from tests.factories import make_pilot_token


@pytest.mark.django_db
@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("url", [CONFIG, REPORT])
def test_only_a_living_pilot_may_call_its_endpoints(client: Client, url: str, credential: str) -> None:
    make, status = CREDENTIALS[credential]
    token = make()
    before = list(Pilot.objects.order_by("pk").values())

    answer = client.get(url, headers=bearer(token)) if url == CONFIG else post(client, url, FIT, token=token)

    assert answer.status_code == status
    assert answer.json()["code"]
    assert answer.json()["detail"]
    assert list(Pilot.objects.order_by("pk").values()) == before


@pytest.mark.django_db
@pytest.mark.parametrize("url", [CONFIG, REPORT, REGISTER])
def test_an_anonymous_request_is_401(client: Client, url: str) -> None:
    answer = client.get(url) if url == CONFIG else client.post(url, FIT, content_type="application/json")
    assert answer.status_code == 401
    assert "Bearer" in answer["WWW-Authenticate"]


@pytest.mark.django_db
def test_a_pilot_may_not_call_endpoints_of_users(client: Client) -> None:
    for url in ("/api/v1/jobs/", "/api/v1/auth/me/", "/api/v1/sites/"):
        assert client.get(url, headers=bearer(make_pilot_token())).status_code == 403
