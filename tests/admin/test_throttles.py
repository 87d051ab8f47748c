"""The list of throttles, and the page of one site's throttle."""

import pytest
from django.test import Client
from django.urls import reverse

from matching.services.throttles import advertise, count
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_classad, of_numbers
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import Site, SiteThrottle, ThrottleState
from taskqueues.models import TaskQueue
from taskqueues.services.classads import as_classad
from tests.admin.conftest import RowsOfVO, change
from tests.admin.test_consequences import boxes, is_saved
from tests.admin.test_resources import of_site
from tests.clock import pass_time
from tests.factories import make_throttled_site, make_vo

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SAID = {SUBMITTING: 2, GATHERING: 0, CURRENT: 9}


def rows(client: Client) -> dict[str, list[object]]:
    """Return the cells of the list by the name of the site."""
    page = client.get(reverse("admin:resources_sitethrottle_changelist"))
    assert page.status_code == 200
    shown = page.context["cl"].model_admin
    names = [name for name in shown.list_display if callable(getattr(shown, name, None))]
    return {site.name: [getattr(shown, name)(site) for name in names] for site in page.context["cl"].result_list}


def test_the_page_shows_the_state_of_each_throttle(operator: Client, mine: RowsOfVO) -> None:
    advertised = make_throttled_site(name="advertised")
    advertise(advertised.pk, of_numbers(SAID, sequence=7))
    ThrottleState.objects.filter(site=advertised).update(matched=1)
    counted = make_throttled_site(name="counted")
    count(counted.pk)
    make_throttled_site(name="never")
    make_throttled_site(name="closed", throttle_when_expired=WhenExpired.CLOSED)
    for name, expression in (("expression", "CurMatches < 100"), ("of jobs", "TARGET.NumberOfProcessors < 2")):
        site = make_throttled_site(name=name, policy=ThrottlePolicy.CUSTOM, throttle_requirements=expression)
        advertise(site.pk, of_classad("CurMatches = 1"))
    pass_time(seconds=60)

    found = rows(operator)
    assert [found["advertised"][cell] for cell in (1, 2, 3, 5)] == [True, "2", 1, "the site"]
    assert str(found["advertised"][4]).startswith("1\xa0minute ago (")
    assert found["counted"] == ["level0", True, "5", 0, "–", "the server", "–"]
    assert [found["never"][cell] for cell in (1, 2, 5)] == [True, "counted at the next match", "the server"]
    assert [found["closed"][cell] for cell in (1, 2, 5)] == [False, "0", "nobody: expired"]
    assert (
        found["closed"][6]
        == "The site has never advertised, and it stays closed until an advertisement of it is accepted."
    )
    assert found["expression"][2] == "20 or more"
    assert found["of jobs"][2] == "depends on the job"
    assert mine.site.name not in found


def test_a_manager_sees_the_sites_that_serve_the_own_vo(manager: Client, mine: RowsOfVO) -> None:
    make_throttled_site(name="for all")
    make_throttled_site(name="for both", vos=[mine.vo, make_vo()])
    make_throttled_site(name="foreign", vos=[make_vo()])
    assert rows(manager).keys() == {mine.throttle.name, "for all", "for both"}


def test_a_page_without_throttles_says_where_to_set_them(manager: Client, mine: RowsOfVO) -> None:
    url = reverse("admin:resources_sitethrottle_changelist")
    sentence = "No site has a throttle. One is set on"
    assert sentence not in manager.get(url).content.decode()
    assert sentence not in manager.get(url, {"q": "nowhere"}).content.decode()
    Site.objects.update(throttle_policy=ThrottlePolicy.NONE)
    page = manager.get(url).content.decode()
    assert sentence in page
    for place in ("resources_site", "taskqueues_limit"):
        assert f'href="{reverse(f"admin:{place}_changelist")}"' in page


def test_the_throttle_page_is_read_only(operator: Client, mine: RowsOfVO) -> None:
    row = mine.throttle
    assert "Save" not in operator.get(change(row)).content.decode()
    assert operator.post(change(row), {"max_submitting_jobs": "1"}).status_code == 403
    assert operator.get(reverse("admin:resources_sitethrottle_add")).status_code == 403
    assert operator.post(reverse("admin:resources_sitethrottle_delete", args=[row.pk])).status_code == 403


def test_the_page_of_a_throttle_shows_its_whole_state(operator: Client, mine: RowsOfVO) -> None:
    advertise(mine.throttle.pk, of_classad('CurrentSubmittingJobs = 5; Gateway = "<b>"', sequence=7))
    page = operator.get(change(mine.throttle)).content.decode()
    assert "CurrentSubmittingJobs = 5" in page
    assert "The site advertised CurrentSubmittingJobs = 5, which leaves no room: MaxSubmittingJobs is " in page
    assert "&lt;b&gt;" in page


def test_the_site_links_to_its_throttle(manager: Client, mine: RowsOfVO) -> None:
    site = Site.objects.get(pk=mine.throttle.pk)
    assert f'href="{change(mine.throttle)}"' in manager.get(change(site)).content.decode()
    assert "There is no throttle yet" in manager.get(change(mine.site)).content.decode()


def test_the_site_page_lists_the_attributes_for_expressions(manager: Client, mine: RowsOfVO) -> None:
    page = manager.get(change(mine.site)).content.decode()
    listed = page.partition("the requirements of the job: ")[2].partition(". A name is looked up")[0].split(", ")
    task_queue = TaskQueue.objects.select_related("owner", "group", "vo").first() or TaskQueue()
    assert set(as_classad(task_queue).names) <= set(listed)
    assert "MaxSubmittingAndOutputGatheringJobs" in page


def test_a_changed_throttle_applies_at_once_to_the_last_advertisement(manager: Client, mine: RowsOfVO) -> None:
    site = Site.objects.get(pk=mine.throttle.pk)
    advertise(site.pk, of_numbers(SAID))
    assert manager.post(change(site), of_site(throttle_policy="level0", max_submitting_jobs="9")).status_code == 302
    assert ThrottleState.objects.get().room == 7
    assert manager.post(change(site), of_site()).status_code == 302
    assert not ThrottleState.objects.exists()
    assert not SiteThrottle.objects.exclude(throttle_policy="").exists()


def test_an_expression_with_an_unknown_name_is_saved_when_that_is_confirmed(manager: Client, mine: RowsOfVO) -> None:
    site = change(Site.objects.get(pk=mine.throttle.pk))
    fields = of_site(throttle_policy="custom", throttle_requirements="CPUTme < 3600 && CurMatches < 10")
    ((asked, words),) = boxes(manager, site, fields).items()
    assert asked == (
        "The expression of the throttle: neither jobs nor the site's last advertisement have CPUTme, so it is "
        'undefined until the site advertises it. Did you mean "CPUTime"?'
    )
    assert words == f"{asked} An expression that is not TRUE closes the site."
    assert is_saved(manager, site, fields | {"confirmed": asked})
    assert Site.objects.get(pk=mine.throttle.pk).throttle_requirements == "CPUTme < 3600 && CurMatches < 10"
    assert is_saved(manager, site, fields | {"throttle_requirements": "CPUTime < 3600 && CurMatches < 10"})
