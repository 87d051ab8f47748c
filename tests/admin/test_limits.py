"""Pages of limits and quotas: who may set which, what is refused, and the room that is shown."""

from typing import Any

import pytest
from django.test import Client

from taskqueues.models import Limit, LimitSlot
from tests.admin.conftest import RowsOfVO, Shared, add, change, changelist, errors_of
from tests.factories import NOW, make_job, make_user
from wms.accounts.models import ConfigurationChange
from wms.configuration.configure import configure
from wms.configuration.export import export

pytestmark = pytest.mark.django_db


def test_a_manager_sets_limits_for_the_own_vo_only(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, shared: Shared
) -> None:
    limits = Limit.objects.count()
    for scope in (
        {},
        {"vo": theirs.vo.pk},
        {"group": theirs.group.pk},
        {"user": theirs.member.pk},
        {"site": shared.site.pk},
        {"user": mine.member.pk},
    ):
        assert manager.post(add(Limit), {"running": "5", **scope}).status_code == 200, scope
    assert Limit.objects.count() == limits
    for scope in (
        {"vo": mine.vo.pk, "site": shared.site.pk},
        {"group": mine.group.pk},
        {"site": mine.site.pk},
        {"ce": mine.ce.pk},
    ):
        assert manager.post(add(Limit), {"running": "5", **scope}).status_code == 302, scope
    assert Limit.objects.count() == limits + 4


def test_a_limit_and_its_reason_are_in_the_history(manager: Client, mine: RowsOfVO) -> None:
    body = {"vo": mine.vo.pk, "running": "7", "reason": "a small farm"}
    assert manager.post(change(mine.limit), body).status_code == 302
    changes = ConfigurationChange.objects.latest("pk").facts["changes"]
    assert changes == {"running": "5 → 7", "reason": "a small farm"}


def test_a_limit_without_a_bound_is_refused(manager: Client, mine: RowsOfVO) -> None:
    assert errors_of(manager.post(add(Limit), {"vo": mine.vo.pk}))


def test_a_violated_constraint_is_explained_in_words(operator: Client, mine: RowsOfVO) -> None:
    errors = errors_of(operator.post(add(Limit), {"vo": mine.vo.pk}))
    assert dict(errors) == {"running": ["Give running, waiting, cpu_s_per_day or delay_s."]}


def test_a_deletion_page_lists_no_internal_records(operator: Client, mine: RowsOfVO) -> None:
    assert LimitSlot.objects.filter(limit=mine.limit).exists()
    page = operator.get(change(mine.limit).replace("/change/", "/delete/")).content.decode()
    assert "Limits: 1" in page
    for book in ("imit slot", "imit count", "imit hour"):
        assert book not in page


def test_a_limit_does_not_move_to_another_vo(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    assert "vo" in errors_of(manager.post(change(mine.limit), {"vo": theirs.vo.pk, "running": "1"}))
    assert manager.post(change(theirs.limit), {"vo": theirs.vo.pk, "running": "0"}).status_code == 302
    theirs.limit.refresh_from_db()
    assert (theirs.limit.vo, theirs.limit.running) == (theirs.vo, 5)


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({}, "__all__", "Name at least one of vo, site, ce, group, user and job_type."),
        ({"vo": "vo", "running": ""}, "running", "Give running, waiting"),
        ({"site": "site", "ce": "ce of others"}, "ce", "The CE is not at lhcb.org; choose a CE of this site"),
        ({"site": "site", "waiting": "5"}, "waiting", "A limit of waiting jobs has no site and no CE"),
        ({"vo": "vo", "burst": "2"}, "burst", "A burst requires a delay; give the delay."),
        ({"vo": "vo", "running": "-1"}, "running", "greater than or equal to 0"),
        ({"vo": "vo", "delay_s": "86401"}, "delay_s", "less than or equal to 86400"),
        ({"vo": "vo", "group": "group of others"}, "group", "The group belongs to "),
    ],
)
def test_a_limit_without_scope_or_bound_is_refused(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO, fields: dict[str, str], field: str, sentence: str
) -> None:
    limits = Limit.objects.count()
    rows = {"vo": mine.vo.pk, "site": mine.site.pk, "ce of others": theirs.ce.pk, "group of others": theirs.group.pk}
    body: dict[str, Any] = {"running": "1", **{name: rows.get(value, value) for name, value in fields.items()}}
    (told,) = errors_of(operator.post(add(Limit), body))[field]
    assert sentence in told
    assert Limit.objects.count() == limits


def test_form_and_configuration_file_accept_the_same_limits(operator: Client, mine: RowsOfVO) -> None:
    scopes = ({"group": mine.group.pk}, {"ce": mine.ce.pk}, {"site": mine.site.pk}, {"job_type": "User"})
    for scope in scopes:
        assert operator.post(add(Limit), {"running": "9", **scope}).status_code == 302, scope
    written = export()
    assert configure(written.encode(), environ={}, now=NOW, dry_run=True).differences == ()


def test_the_page_shows_the_room_left_in_each_kind_of_limit(operator: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    Limit.objects.all().delete()
    for _ in range(2):
        make_job(owner=mine.member, group=mine.group, job_type="Merge")
    vo = {"vo": mine.vo}
    expected = {
        Limit.objects.create(**vo, running=5).pk: "4 of 5 jobs",
        Limit.objects.create(**vo, waiting=10).pk: "7 of 10 waiting jobs",
        Limit.objects.create(**vo, waiting=2).pk: "0 of 2 waiting jobs",
        Limit.objects.create(group=mine.group, job_type="Merge", waiting=3).pk: "1 of 3 waiting jobs",
        Limit.objects.create(user=make_user(), waiting=3).pk: "3 of 3 waiting jobs",
        Limit.objects.create(job_type="Merge", waiting=0).pk: "0 of 0 waiting jobs",
        Limit.objects.create(user=mine.member, cpu_s_per_day=100).pk: "100 of 100 s of CPU time",
        Limit.objects.create(site=mine.site, delay_s=2, burst=4).pk: "4 matches at once",
        Limit.objects.create(site=mine.site, running=1).pk: (
            "at most 1 job of all at the site lhcb.org may run at a time, and 1 does"
        ),
        Limit.objects.create(**vo, running=1, waiting=4).pk: (
            "at most 1 job of the VO lhcb may run at a time, and 1 does, 1 of 4 waiting jobs"
        ),
    }
    page = operator.get(changelist(Limit))
    shown = page.context["cl"].model_admin
    assert {limit.pk: shown.room_now(limit) for limit in page.context["cl"].result_list} == expected
    for pk, room in expected.items():
        assert room in operator.get(change(Limit.objects.get(pk=pk))).content.decode()
