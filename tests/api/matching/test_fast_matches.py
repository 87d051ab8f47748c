"""Ordinary matches, status reports and ends of payloads are answered before the frameworks."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.http import HttpRequest
from django.utils import timezone

from matching.models import Match
from matching.services.site_throttle import ThrottleBusyError
from pilots.models import Pilot
from tests import factories
from tests.api.matching.conftest import SampleData, offer
from tests.wsgi import FastClient
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.fast.views import FastView
from wms.wire.protocol import WHY_HEADER

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the class of each view is added that the frameworks call."""
    called: list[str] = []
    real = FastView.initialize_request

    def initialize_request(view: FastView, request: HttpRequest, *args: object, **kwargs: object) -> Any:
        called.append(type(view).__name__)
        return real(view, request, *args, **kwargs)

    monkeypatch.setattr(FastView, "initialize_request", initialize_request)
    return called


def post(path: str, body: object, *, token: str) -> "Answer":
    headers = {"Authorization": f"Bearer {token}"}
    return FastClient().post(path, body, content_type="application/json", headers=headers)


@pytest.fixture
def token(sample: SampleData) -> str:
    return factories.make_pilot_token(sample.pilot)


@pytest.mark.parametrize("path", ["/api/v1/matches/", "/api/matches/"])
def test_the_life_of_a_lease_needs_no_framework(sample: SampleData, token: str, views: list[str], path: str) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = post(path, offer(), token=token).json()
    address = f"{path}{lease['match_id']}/"
    running = post(f"{address}status/", {"status": "Running", "minor_status": "Application"}, token=lease["token"])
    assert running.json()["commands"] == []
    assert Job.objects.get().status == JobStatus.RUNNING
    assert post(f"{address}heartbeat/", {"cpu_s": 1}, token=token).status_code == HTTPStatus.OK
    assert post(f"{address}status/", {"status": "Completing"}, token=token).status_code == HTTPStatus.OK
    finished = post(f"{address}finish/", {"exit_code": 0, "usage": {"cpu_s": 2}}, token=lease["token"])
    assert finished.json() == {"status": "Done"}
    assert Match.objects.get().end_reason == "finished"
    assert post(path, offer(), token=token).status_code == HTTPStatus.NO_CONTENT
    assert views == []


def test_a_repeated_request_gets_the_same_lease(sample: SampleData, token: str, views: list[str]) -> None:
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod)
    asked = offer()
    one, other = (post("/api/v1/matches/", asked, token=token).json() for _ in range(2))
    assert one["match_id"] == other["match_id"]
    assert views == []


def test_several_leases_are_a_list(sample: SampleData, token: str, views: list[str], large_slot: None) -> None:
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod)
    answer = post("/api/v1/matches/", offer(max_jobs=3, processors=4), token=token)
    assert [lease["job"]["owner"] for lease in answer.json()["leases"]] == ["alice", "alice"]
    assert views == []


def test_a_narrowed_offer_returns_the_reason(sample: SampleData, views: list[str]) -> None:
    token = factories.make_pilot_token(factories.make_pilot(vo=sample.vo))
    answer = post("/api/v1/matches/", offer(), token=token)
    assert answer.status_code == HTTPStatus.NO_CONTENT
    assert "queue of this pilot is not known" in answer[WHY_HEADER]
    assert views == []


def test_a_refused_match_is_reported_by_the_view_and_not_tried_again(
    sample: SampleData, token: str, views: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    match = Mock(side_effect=ThrottleBusyError())
    monkeypatch.setattr("matching.api.views.match", match)
    answer = post("/api/v1/matches/", offer(), token=token)
    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert int(answer["Retry-After"]) > 0
    assert answer.json()["code"] == ThrottleBusyError.code
    assert match.call_count == 1
    assert views == ["MatchesView"]


def test_a_refusal_is_recorded_once_in_the_security_log(
    sample: SampleData, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Mock()
    monkeypatch.setattr("wms.accounts.middleware.record", record)
    Pilot.objects.update(revoked_at=timezone.now())
    assert post("/api/v1/matches/", offer(), token=token).status_code == HTTPStatus.FORBIDDEN
    assert [call.kwargs["code"] for call in record.call_args_list] == ["pilot_not_welcome"]


def test_after_an_internal_error_the_view_answers(
    sample: SampleData, token: str, views: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    monkeypatch.setattr("matching.api.views.data_of", Mock(side_effect=[RuntimeError("lost"), {}]))
    answer = post("/api/v1/matches/", offer(), token=token)
    assert answer.status_code == HTTPStatus.CREATED
    assert str(Match.objects.get().pk) == answer.json()["match_id"]
    assert views == ["MatchesView"]


def test_reports_on_leases_of_others_are_refused_by_the_view(sample: SampleData, token: str, views: list[str]) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = post("/api/v1/matches/", offer(), token=token).json()
    other = factories.make_pilot_token(factories.make_pilot(vo=sample.vo))
    for report, body in (("status", {"status": "Running"}), ("finish", {"exit_code": 0, "usage": {}})):
        path = f"/api/v1/matches/{lease['match_id']}/{report}/"
        assert post(path, body, token=other).status_code == HTTPStatus.NOT_FOUND
        missing = f"/api/v1/matches/{uuid4()}/{report}/"
        assert post(missing, body, token=lease["token"]).status_code == HTTPStatus.NOT_FOUND
    assert views == ["LeaseStatusView"] * 2 + ["FinishView"] * 2
    assert Match.objects.get().reported_at is None
