"""Labels with units, numbers of rows and reports of actions in the administration say what is so."""

import pytest
from django.test import Client

from tests.admin.conftest import RowsOfVO, change, changelist
from tests.factories import make_user
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.kernel.admin.pages import CappedPaginator

pytestmark = pytest.mark.django_db


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
