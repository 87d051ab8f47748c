"""Every page can be opened by those who may, and shows no rows of other VOs."""

from typing import Any

import pytest
from django.contrib import admin
from django.db import models
from django.test import Client
from django.urls import reverse

from matching.models import Match, PilotEfficiency
from pilots.models import BlackHole, CEHealth, Director, Pilot
from resources.models import (
    ComputingElement,
    Downtime,
    Platform,
    Queue,
    Replica,
    RequirementDefinition,
    Site,
    SiteAdministrator,
    SiteThrottle,
    SiteToken,
    StorageElement,
)
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests.admin.conftest import RowsOfVO, Shared
from tests.factories import make_user
from wms.accounts.models import VO, ApiToken, ConfigurationChange, Group, SecurityEvent, User
from wms.jobs.models import Job
from wms.kernel.admin.pages import RowLevelAdmin

pytestmark = pytest.mark.django_db

#: Model → attribute of the fixtures `mine` and `theirs`.
OF_A_VO: dict[type[models.Model], str] = {
    VO: "vo",
    Group: "group",
    User: "member",
    Site: "site",
    ComputingElement: "ce",
    Queue: "queue",
    Limit: "limit",
    RequirementDefinition: "definition",
    Job: "job",
    Pilot: "pilot",
    PilotEfficiency: "efficiency",
    BlackHole: "black_hole",
    CEHealth: "ce_health",
    Match: "match",
    TaskQueue: "task_queue",
    SubmitPool: "submit_pool",
    SiteThrottle: "throttle",
    SiteToken: "site_token",
    SiteAdministrator: "site_administrator",
    Downtime: "downtime",
    Replica: "replica",
    ConfigurationChange: "change",
}
SHARED: dict[type[models.Model], str] = {Platform: "platform", StorageElement: "storage_element", Director: "director"}
OPERATORS_ADD = [
    VO,
    Group,
    User,
    Site,
    ComputingElement,
    Queue,
    Limit,
    RequirementDefinition,
    SiteAdministrator,
    Downtime,
    *SHARED,
]
MANAGERS_ADD = [Group, Site, Queue, Limit, RequirementDefinition, Downtime]
admin.autodiscover()
OURS = [model for model in admin.site._registry if not model.__module__.startswith("django.")]


def address(model: type[models.Model], page: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def test_every_model_with_a_page_is_in_a_table_of_this_test() -> None:
    assert set(OURS) == {*OF_A_VO, *SHARED, ApiToken, SecurityEvent}


def test_django_finds_no_mistake_in_the_pages() -> None:
    """Its own checks may run before wms.urls imports them."""
    assert admin.site.check(None) == []


def test_every_constraint_that_a_form_can_violate_has_an_error_message() -> None:
    for model, page in admin.site._registry.items():
        if not isinstance(page, RowLevelAdmin) or not {"add", "change"} & (page.operators_may | page.managers_may):
            continue
        for constraint in model._meta.constraints:
            told_by_django = isinstance(constraint, models.UniqueConstraint) and constraint.fields
            if not told_by_django and not constraint.name.endswith("_state_is_known"):  # the state has no field
                assert constraint.name in page.constraint_words, constraint.name


def test_an_operator_sees_every_list_with_all_rows(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO, shared: Shared, subtests: pytest.Subtests
) -> None:
    for model in OURS:
        with subtests.test(model.__name__):
            response = operator.get(address(model, "changelist"))
            assert response.status_code == 200
            rows = model._default_manager
            number = (rows.exclude(throttle_policy="") if model is SiteThrottle else rows).count()
            assert response.context["cl"].result_count == number


def test_a_manager_sees_only_the_rows_of_the_own_vo(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, subtests: pytest.Subtests
) -> None:
    for model, name in OF_A_VO.items():
        with subtests.test(name):
            response = manager.get(address(model, "changelist"))
            assert response.status_code == 200
            seen = set(response.context["cl"].queryset.values_list("pk", flat=True))
            assert getattr(mine, name).pk in seen
            assert getattr(theirs, name).pk not in seen
            assert "atlas" not in response.content.decode()


def test_rows_of_the_own_vo_open_and_of_others_do_not(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, subtests: pytest.Subtests
) -> None:
    for model, name in OF_A_VO.items():
        with subtests.test(name):
            response = manager.get(address(model, "change", getattr(mine, name).pk))
            assert response.status_code == 200
            assert "atlas" not in response.content.decode()
            for page in ("change", "delete", "history"):
                # Django sends who asks for a row that is not there to the start page, and refuses its deletion.
                assert manager.get(address(model, page, getattr(theirs, name).pk)).status_code in {302, 403}


def test_each_row_opens_for_an_operator(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO, shared: Shared, subtests: pytest.Subtests
) -> None:
    rows = {model: getattr(theirs, name) for model, name in OF_A_VO.items()}
    rows |= {model: getattr(shared, name) for model, name in SHARED.items()}
    for model, row in rows.items():
        for page in ("change", "history"):
            with subtests.test(f"{page} of {model.__name__}"):
                assert operator.get(address(model, page, row.pk)).status_code == 200


@pytest.mark.parametrize("model", SHARED, ids=list(SHARED.values()))
def test_a_manager_sees_what_is_shared_and_does_not_change_it(
    model: type[models.Model], manager: Client, mine: RowsOfVO, shared: Shared
) -> None:
    row = getattr(shared, SHARED[model])
    assert manager.get(address(model, "change", row.pk)).status_code == 200
    assert manager.post(address(model, "change", row.pk), {"name": "changed"}).status_code == 403
    assert manager.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model._default_manager.filter(pk=row.pk, name=row.name).exists()


def test_access_rights_to_add_pages(operator: Client, manager: Client, subtests: pytest.Subtests) -> None:
    for model in OURS:
        with subtests.test(model.__name__):
            assert operator.get(address(model, "add")).status_code == (200 if model in OPERATORS_ADD else 403)
            assert manager.get(address(model, "add")).status_code == (200 if model in MANAGERS_ADD else 403)


def test_staff_without_managed_vos_sees_nothing(mine: RowsOfVO, subtests: pytest.Subtests) -> None:
    client = Client()
    client.force_login(make_user(staff=True))
    lists: list[type[models.Model]] = [ApiToken, SecurityEvent, *OF_A_VO]
    for model in lists:
        with subtests.test(model.__name__):
            assert client.get(address(model, "changelist")).status_code == 403


def test_a_manager_without_staff_status_gets_an_explanation(mine: RowsOfVO) -> None:
    client = Client()
    client.force_login(make_user(manages=[mine.vo]))
    response = client.get("/admin/", follow=True)
    assert response.status_code == 403
    assert "You may not do this" in response.content.decode()


def test_the_admin_redirects_to_the_portal_log_in(mine: RowsOfVO) -> None:
    response = Client().get("/admin/", follow=True)
    assert response.redirect_chain[-1][0] == "/accounts/login/?next=%2Fadmin%2F"
    assert Client().post("/admin/login/", {"username": "bob", "password": "x"}).status_code == 302


def test_the_menu_of_a_manager_has_no_tokens_of_users(manager: Client) -> None:
    page = manager.get("/admin/").content.decode()
    assert "Groups" in page
    assert "Api tokens" not in page
    assert "Security events" not in page


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        (User, "password__startswith"),
        (User, "api_tokens__digest__startswith"),
        (User, "managed_vos__name"),
        (SiteToken, "digest__contains"),
        (StorageElement, "credential_encrypted__contains"),
        (Job, "description__contains"),
    ],
)
def test_the_query_string_cannot_filter_by_hidden_columns(
    model: type[models.Model], lookup: str, manager: Client
) -> None:
    assert manager.get(address(model, "changelist"), {lookup: "a"}).status_code == 400


def test_a_manager_finds_no_other_vo_in_the_completion(manager: Client, theirs: RowsOfVO) -> None:
    query = {"app_label": "taskqueues", "model_name": "limit", "field_name": "user", "term": ""}
    found = manager.get("/admin/autocomplete/", query).json()["results"]
    assert [row["text"] for row in found] == ["lhcb_member"]


@pytest.mark.parametrize("page", ["history", "change", "delete"])
def test_refusals_do_not_disclose_rows_to_staff_without_rights(shared: Shared, page: str) -> None:
    client = Client()
    client.force_login(make_user(staff=True))
    for model, name in SHARED.items():
        there, missing = (client.get(address(model, page, pk)) for pk in (getattr(shared, name).pk, 2**31 - 7))
        assert there.status_code == missing.status_code, (model, page)
