"""Actions of lists on the page of one row: the same rights, the same confirmation, and back to the page."""

import re

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory

from resources.domain.enums import ResourceState
from tests.admin.conftest import RowsOfVO, Shared, act, change
from tests.factories import make_user
from wms.accounts.models import Group
from wms.kernel.admin.pages import RowLevelAdmin

pytestmark = pytest.mark.django_db


def test_the_page_of_a_row_offers_each_action_of_its_list() -> None:
    request = RequestFactory().get("/")
    request.user = make_user(username="root", staff=True, superuser=True, operator=True)
    for page in admin.site._registry.values():
        if isinstance(page, RowLevelAdmin):
            assert page.get_actions(request).keys() - {"delete_selected"} == page.row_actions.keys(), page


def test_a_manager_bans_a_site_on_its_page_with_its_jobs_in_numbers(manager: Client, mine: RowsOfVO) -> None:
    page = manager.get(change(mine.site)).content.decode()
    assert '<button class="button" name="action" value="ban">Ban …</button>' in page
    asked = act(manager, mine.site, "ban", of_row=str(mine.site.pk)).content.decode()
    numbers = "1 job runs there; 0 jobs wait that can run nowhere else."
    assert numbers in asked
    assert f'<a href="{change(mine.site)}" class="closelink">' in asked
    assert f'name="of_row" value="{mine.site.pk}"' in asked
    sure = {"of_row": str(mine.site.pk), "confirmed": "1", "reason": "power cut", "until": "2090-01-01T00:00"}
    done = act(manager, mine.site, "ban", **sure)
    assert done.headers["Location"] == change(mine.site)
    page = manager.get(change(mine.site)).content.decode()
    (said,) = re.findall(r'<li class="success">(.*?)</li>', page)
    assert said == f"Now banned until 2090-01-01 00:00:00 UTC: lhcb.org. {numbers}"
    mine.site.refresh_from_db()
    assert mine.site.state == ResourceState.BANNED


@pytest.mark.parametrize("row", ["ce", "queue", "pilot", "ce_health", "black_hole", "site_token"])
def test_the_page_of_a_row_offers_actions_to_those_who_may_change_it(
    row: str, manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    offered = '<form class="row-actions"'
    assert offered in manager.get(change(getattr(mine, row))).content.decode()
    if row != "pilot":  # those of the VO stay the manager's, wherever they are
        mine.site.vos.add(theirs.vo)
        assert offered not in manager.get(change(getattr(mine, row))).content.decode()


def test_a_shared_site_offers_a_manager_no_actions(manager: Client, shared: Shared) -> None:
    assert "row-actions" not in manager.get(change(shared.site)).content.decode()


def test_a_row_without_actions_has_no_buttons(manager: Client, mine: RowsOfVO) -> None:
    assert "row-actions" not in manager.get(change(Group.objects.get(pk=mine.group.pk))).content.decode()
