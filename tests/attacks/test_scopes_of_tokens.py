"""Tokens of the scopes read and submit, used for more than that at every address."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from django.views import View
from pytest_django import Settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView

from tests.api.credentials.addresses import Address, every_address
from tests.api.credentials.sample import SampleData, make_sample
from tests.factories import make_job, make_token, make_user
from tests.tables import checksums
from wms.accounts import queries
from wms.accounts.domain import TokenScope
from wms.accounts.models import SecurityEvent
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db

#: May be used with the scope ``submit``; every other address that changes something needs ``manage``.
FOR_SUBMITTERS = {
    "jobs", "jobs-bulk", "job", "job-kill", "job-reschedule", "job-delete", "job-hold", "job-release", "sandboxes",
    "jobs-rehearsal", "auth-revoke",
}  # fmt: skip
#: No token is looked at: they take a password, or the word of a provider.
WITHOUT_TOKENS = {"auth-token", "auth-oidc", "auth-oidc-device", "auth-oidc-token"}


@pytest.fixture
def sample(db: None, settings: Settings, tmp_path: Path) -> SampleData:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    return make_sample()


def unsafe() -> Iterator[tuple[str, Address]]:
    for address in every_address():
        if address.is_api and address.name not in WITHOUT_TOKENS:
            yield from ((method, address) for method in address.methods if method not in SAFE_METHODS)


def client_with(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


@pytest.mark.parametrize("scope", [TokenScope.READ, TokenScope.SUBMIT])
@pytest.mark.parametrize("operator", [False, True])
def test_a_narrow_token_changes_nothing_beyond_its_scope(scope: TokenScope, operator: bool, sample: SampleData) -> None:
    """An operator's, so that nothing but the scope stands in the way."""
    if operator:
        type(sample.alice).objects.filter(pk=sample.alice.pk).update(operator=True)
    token, tried = make_token(sample.alice, scope=scope), 0
    before = checksums(without={SecurityEvent._meta.db_table})
    for method, address in unsafe():
        if address.name == "auth-revoke" or (scope is TokenScope.SUBMIT and address.name in FOR_SUBMITTERS):
            continue
        savepoint = transaction.savepoint()
        answer = client_with(token).generic(
            method, address.url(sample.arguments()), "{}", content_type="application/json"
        )
        assert answer.status_code in {401, 403, 404, 405, 415}, (method, address.name, answer.status_code)
        if method in address.answers:
            assert answer.status_code in {401, 403}, (method, address.name, answer.status_code)
            tried += 1
        transaction.savepoint_commit(savepoint)
    assert checksums(without={SecurityEvent._meta.db_table}) == before
    assert tried >= 10


def test_a_view_without_a_scope_requires_manage(sample: SampleData) -> None:
    class NewView(APIView):
        def get(self, request: object) -> Response:
            return Response({})

        def post(self, request: object) -> Response:
            return Response({})

    def status(method: str, scope: TokenScope, view: type[View] = NewView) -> int:
        header = {"Authorization": f"Bearer {make_token(sample.alice, scope=scope)}"}
        return int(view.as_view()(APIRequestFactory().generic(method, "/new/", headers=header)).status_code)

    assert [status("GET", scope) for scope in TokenScope] == [200, 200, 200]
    assert [status("POST", scope) for scope in TokenScope] == [403, 403, 200]


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
