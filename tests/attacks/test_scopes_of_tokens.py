"""Tokens of the scopes read and submit, used for more than that; at every address, see test_matrix.py."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from django.views import View
from pytest_django import Settings
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView

from tests.api.credentials.sample import SampleData, make_sample
from tests.factories import make_job, make_token, make_user
from wms.accounts import queries
from wms.accounts.domain import TokenScope
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def sample(db: None, settings: Settings, tmp_path: Path) -> SampleData:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    return make_sample()


def client_with(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_a_view_without_a_scope_requires_manage(sample: SampleData) -> None:
    class NewView(APIView):
        def get(self, request: object) -> Response:
            return Response({})

        def post(self, request: object) -> Response:
            return Response({})

    def status(method: str, scope: TokenScope, view: type[View] = NewView) -> int:
        header = {"Authorization": f"Bearer {make_token(sample.alice, scope=scope)}"}
        return int(view.as_view()(APIRequestFactory().generic(method, "/new/", headers=header)).status_code)

    assert [status("GET", scope) for scope in TokenScope] == [200, 200, 200, 200]
    assert [status("POST", scope) for scope in TokenScope] == [403, 403, 200, 200]


def test_a_submit_token_of_a_manager_acts_on_own_jobs_only(sample: SampleData) -> None:
    manager = make_user(groups=[sample.group], manages=[sample.vo])
    own, other = make_job(owner=manager, group=sample.group), make_job(owner=sample.alice, group=sample.group)
    client = client_with(make_token(manager, scope=TokenScope.SUBMIT))
    assert client.get(f"/api/v1/jobs/{other.pk}/").status_code == 200
    assert client.post(f"/api/v1/jobs/{other.pk}/kill/").status_code == 404
    assert client.patch(f"/api/v1/jobs/{other.pk}/", {"priority": 5}, format="json").status_code == 404
    for body in ({"ids": [own.pk, other.pk]}, {"filter": {"owner": "alice"}}):
        answer = client.post("/api/v1/jobs/bulk/", {"action": "kill", **body}, format="json").json()
        assert {"id": other.pk, "code": "not_found"} in answer["refused"]
    assert Job.objects.get(pk=other.pk).status == "Waiting"
    assert Job.objects.get(pk=own.pk).status == "Killed"


def test_a_token_cannot_issue_tokens(sample: SampleData) -> None:
    for scope in TokenScope:
        client = client_with(make_token(sample.alice, scope=scope))
        before = sample.alice.api_tokens.count()
        for address in ("/api/v1/auth/tokens/", "/api/v1/auth/token/", "/accounts/tokens/"):
            assert client.post(address, {"scope": "manage", "name": "x", "days": 1}, format="json").status_code >= 302
        assert sample.alice.api_tokens.count() == before


def test_tokens_of_other_users_are_neither_listed_nor_revoked(sample: SampleData) -> None:
    stranger = client_with(make_token(make_user(manages=[sample.vo])))
    assert stranger.delete(f"/api/v1/auth/tokens/{sample.alice_token_id}/").status_code == 404
    assert [row["id"] for row in stranger.get("/api/v1/auth/tokens/").json()["results"]] != [sample.alice_token_id]
    page = Client()
    page.force_login(make_user())
    assert page.post(f"/accounts/tokens/{sample.alice_token_id}/revoke/").status_code == 404
    assert queries.live_tokens(sample.alice, now=timezone.now()).filter(pk=sample.alice_token_id).exists()
