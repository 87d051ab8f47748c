"""Labels with units, numbers of rows and reports of actions in the administration say what is so."""

import re
from typing import Any

import pytest
from django.test import Client

from tests.admin.conftest import RowsOfVO, change, changelist
from tests.factories import make_token, make_user
from wms.accounts.models import ApiToken, User
from wms.jobs.models import Job
from wms.kernel.admin.pages import CappedPaginator
from wms.kernel.clock import current_time

pytestmark = pytest.mark.django_db


def said(page: str) -> list[str]:
    return re.findall(r'<li class="(?:success|warning|error)">(.*?)</li>', page)


def buttons(page: str) -> list[str]:
    return re.findall(r'name="action" value="(\w+)"', page)


def test_what_is_only_shown_has_the_labels_of_forms(operator: Client, mine: RowsOfVO) -> None:
    labels = {
        mine.job: ("VO:", "CE:", "CPU (s):", "Wall (s):", "Max memory (MB):", "Max disk (MB):"),
        mine.match: ("CPU segment (s):",),
        mine.ce_health: ("CE:",),
    }
    for row, expected in labels.items():
        page = operator.get(change(row)).content.decode()
        for label in expected:
            assert f">{label}</label>" in page, (row, label)


def test_each_field_of_a_table_on_a_page_has_a_name_that_is_read_aloud(operator: Client, mine: RowsOfVO) -> None:
    page = operator.get(change(mine.member)).content.decode()
    assert 'name="dns-0-dn"' in page
    assert 'aria-label="DN"' in page
    assert "Distinguished names" in page
    assert 'aria-label="User name"' in operator.get(change(mine.group)).content.decode()


def test_a_bounded_number_of_rows_is_not_said_to_be_exact(
    operator: Client, mine: RowsOfVO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("anna", "anton"):
        make_user(username=name)
    page = operator.get(changelist(User), {"q": "an"}).content.decode()
    assert "2 results" in page
    monkeypatch.setattr(CappedPaginator, "MOST", 2)
    page = operator.get(changelist(User), {"q": "an"}).content.decode()
    assert "2 or more results" in page
    assert "2 or more users" in page
    assert "result" not in operator.get(changelist(Job)).content.decode().partition("</form>")[0]  # all are shown


def test_a_revocation_says_what_was_revoked_before(operator: Client, mine: RowsOfVO) -> None:
    make_token(mine.member)
    first, second = ApiToken.objects.order_by("pk")
    for chosen, sentence in (
        ([first], "1 token revoked."),
        ([first, second], "1 of 2 tokens revoked; the other was already."),
        ([first, second], "Nothing was changed: 2 tokens revoked already."),
    ):
        body = {"action": "revoke", "_selected_action": [str(token.pk) for token in chosen]}
        assert said(operator.post(changelist(ApiToken), body, follow=True).content.decode()) == [sentence]


def test_a_reset_without_a_second_factor_is_no_success(operator: Client, mine: RowsOfVO) -> None:
    body = {"action": "reset_second_factor", "_selected_action": [str(mine.member.pk)]}
    (sentence,) = said(operator.post(changelist(User), body, follow=True).content.decode())
    assert sentence.startswith("Nothing was changed: ")


def test_the_page_of_a_row_offers_only_what_can_change_it(operator: Client, mine: RowsOfVO) -> None:
    def offered(row: Any) -> list[str]:
        return buttons(operator.get(change(row)).content.decode())

    site, token, member, pilot = mine.site, mine.site_token, mine.member, mine.pilot
    assert offered(site)[:2] == ["ban", "drain"]
    assert "activate" not in offered(site)
    type(site).objects.filter(pk=site.pk).update(state="banned", state_reason="power cut")
    assert offered(site)[:3] == ["ban", "drain", "activate"]
    assert offered(member)[0] == "suspend"
    User.objects.filter(pk=member.pk).update(is_active=False)
    assert offered(member)[0] == "restore"
    assert offered(pilot) == ["drain", "kill"]
    type(pilot).objects.filter(pk=pilot.pk).update(drained_at=current_time())
    assert offered(pilot) == ["kill"]
    assert offered(token) == ["revoke"]
    type(token).objects.filter(pk=token.pk).update(revoked_at=current_time())
    assert offered(token) == []


def test_the_deletion_of_a_limit_names_its_jobs(operator: Client, mine: RowsOfVO) -> None:
    page = operator.get(change(mine.limit).replace("/change/", "/delete/")).content.decode()
    assert f"limit {mine.limit.pk} on the VO lhcb" in page
