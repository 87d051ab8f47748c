"""The access log of answers by Django; that of fast answers is tested with them."""

import pytest
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import resolve
from pytest_django import Settings

from wms.kernel.access_log import AccessLog


class Caller:
    is_authenticated = True

    def __str__(self) -> str:
        return "pilot 7"


class AwaySession:
    """A session that the database cannot give."""

    @property
    def is_authenticated(self) -> bool:
        raise AssertionError


def facts_of(caplog: pytest.LogCaptureFixture, *, caller: object, status: int) -> dict[str, object]:
    def answer(request: HttpRequest) -> HttpResponse:
        request.resolver_match = resolve(request.path)
        request.user = caller  # type: ignore[assignment]
        return HttpResponse(status=status)

    with caplog.at_level("INFO"):
        AccessLog(answer)(RequestFactory().get("/api/v1/jobs/7/?token=wmsu_secret"))
    (record,) = caplog.records
    assert record.message == "request.answered"
    assert record.duration_s >= 0  # type: ignore[attr-defined]
    assert "secret" not in str(vars(record))
    return {name: getattr(record, name) for name in ("method", "route", "status", "caller")}


def test_it_is_off_unless_it_is_set() -> None:
    with pytest.raises(MiddlewareNotUsed):
        AccessLog(lambda _: HttpResponse())


def test_a_line_has_the_route_and_the_caller_but_neither_path_nor_query(
    caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    settings.WMS_ACCESS_LOG = True
    facts = facts_of(caplog, caller=Caller(), status=200)
    assert facts == {"method": "GET", "route": resolve("/api/v1/jobs/7/").view_name, "status": 200, "caller": "pilot 7"}


def test_the_caller_of_a_failure_is_not_looked_for(caplog: pytest.LogCaptureFixture, settings: Settings) -> None:
    settings.WMS_ACCESS_LOG = True
    facts = facts_of(caplog, caller=AwaySession(), status=503)
    assert (facts["status"], facts["caller"]) == (503, "")
