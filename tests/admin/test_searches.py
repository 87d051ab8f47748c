"""Searches in the lists of large tables: by ids and by names of other rows, exactly."""

import pytest
from django.test import Client
from django.urls import reverse

from matching.models import Match
from pilots.models import Pilot
from resources.models import ComputingElement, SiteToken
from taskqueues.models import Limit, TaskQueue
from tests.admin.conftest import RowsOfVO, changelist, make_rows_of_vo
from tests.factories import make_ce, make_pilot, make_site
from wms.accounts.models import ConfigurationChange, SecurityEvent, User
from wms.jobs.models import Job
from wms.kernel.admin.rights import SeenRelatedFilter

pytestmark = pytest.mark.django_db


def found(client: Client, model: type, term: object) -> set[object]:
    answer = client.get(changelist(model), {"q": str(term)})
    assert answer.status_code == 200
    return {row.pk for row in answer.context["cl"].result_list}


def test_a_row_is_found_by_its_id_and_by_names_of_others(operator: Client, mine: RowsOfVO) -> None:
    other = make_rows_of_vo("atlas")
    own = set(Job.objects.filter(owner=mine.member).values_list("pk", flat=True))
    assert found(operator, Job, mine.job.pk) == {mine.job.pk}
    assert found(operator, Job, mine.member.username) == own
    assert found(operator, TaskQueue, other.task_queue.pk) == {other.task_queue.pk}
    assert found(operator, TaskQueue, mine.member.username) == {mine.task_queue.pk}
    assert found(operator, Match, mine.job.pk) >= {mine.match.pk}
    assert found(operator, Match, other.pilot.pk) >= {other.match.pk}
    Pilot.objects.filter(pk=mine.pilot.pk).update(host_name="node1")
    assert found(operator, Pilot, "node1") == {mine.pilot.pk}


@pytest.mark.parametrize("term", ["nobody", "1.5", "²", str(2**70), "-1", "a b", "'"])
def test_what_cannot_be_one_finds_nothing(operator: Client, mine: RowsOfVO, term: str) -> None:
    for model in (Job, TaskQueue, Match, Pilot):
        assert found(operator, model, term) == set()


def test_limits_and_tokens_are_found_by_the_names_of_what_they_are_for(operator: Client, mine: RowsOfVO) -> None:
    of_user = Limit.objects.create(user=mine.member, running=5)
    of_type = Limit.objects.create(ce=mine.ce, job_type="Merge", running=5)
    assert found(operator, Limit, mine.member.username) == {of_user.pk}
    assert found(operator, Limit, "merg") == found(operator, Limit, mine.ce.name) == {of_type.pk}
    assert found(operator, SiteToken, mine.site.name) == {mine.site_token.pk}
    assert found(operator, Limit, "nobody") == found(operator, SiteToken, "nowhere") == set()


def test_leases_are_filtered_by_their_end(operator: Client, mine: RowsOfVO) -> None:
    def keys(**query: str) -> set[object]:
        return {row.pk for row in operator.get(changelist(Match), query).context["cl"].result_list}

    assert keys(end="open") == {mine.match.pk}
    Match.objects.filter(pk=mine.match.pk).update(ended_at=mine.match.expires_at, end_reason="expired")
    assert keys(end="expired") == {mine.match.pk}
    assert keys(end="open") == keys(end="finished") == set()


def test_users_are_found_by_beginnings_and_by_a_complete_dn(operator: Client, manager: Client, mine: RowsOfVO) -> None:
    User.objects.filter(pk=mine.member.pk).update(first_name="Alice", last_name="Liddell", email="al@example.org")
    for term in ("lhcb_m", "ali", "Lidd", "al@ex", "/CN=lhcb"):
        assert found(operator, User, term) == {mine.member.pk}
    for term in ("member", "ddell", "/CN=lhc"):
        assert found(operator, User, term) == set()
    assert found(manager, User, "Lidd") == {mine.member.pk}
    assert found(manager, User, "/CN=lhcb") == set()


def test_events_are_found_by_names_and_beginnings(operator: Client, mine: RowsOfVO) -> None:
    change = mine.change
    for model in (SecurityEvent, ConfigurationChange):
        for term in (mine.site.name, f"site {mine.site.name}", "site lhcb"):
            assert change.pk in found(operator, model, term)
        assert found(operator, model, "hcb.org") == set()


def test_pilots_are_filtered_by_a_site_also_where_it_started_them(operator: Client, mine: RowsOfVO) -> None:
    by_site = make_pilot(vo=mine.vo, site=mine.site)
    make_pilot(vo=mine.vo, site=make_site())
    listed = operator.get(changelist(Pilot), {"queue__ce__site__id__exact": str(mine.site.pk)})
    assert {row.pk for row in listed.context["cl"].result_list} == {mine.pilot.pk, by_site.pk}


def test_a_filter_of_many_rows_is_searched_among_those_that_the_reader_sees(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeenRelatedFilter, "MOST_LINKS", 1)
    make_ce(name="other", site=mine.throttle)
    chosen = {"site__id__exact": str(mine.site.pk), "q": "lhcb"}
    listed = manager.get(changelist(ComputingElement), chosen)
    page = listed.content.decode()
    assert {row.pk for row in listed.context["cl"].result_list} == {mine.ce.pk}
    assert f'<option value="{mine.site.pk}" selected>{mine.site.name}</option>' in page
    assert '<input type="hidden" name="q" value="lhcb">' in page
    assert theirs.site.name not in page
    whole = manager.get(changelist(ComputingElement), {"site__id__exact": ""}).context["cl"].result_list
    assert len(whole) == 2
    names = {"app_label": "resources", "model_name": "computingelement", "field_name": "site", "term": "org"}
    offered = manager.get(reverse("admin:autocomplete"), names).json()["results"]
    assert mine.site.name in {row["text"] for row in offered}
    assert theirs.site.name not in {row["text"] for row in offered}


def test_times_and_parts_have_units(operator: Client, mine: RowsOfVO) -> None:
    type(mine.limit).objects.update(cpu_s_per_day=43_200, delay_s=90)
    page = operator.get(changelist(type(mine.limit))).content.decode()
    assert '<td class="field-cpu_s_per_day">12 h</td><td class="field-delay_s">1 min 30 s</td>' in page
    assert '<td class="field-part">100 %</td>' in operator.get(changelist(TaskQueue)).content.decode()
