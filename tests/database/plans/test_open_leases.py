"""Tasks of every few seconds read the open leases, however many leases there ever were."""

import pytest

from matching.services import expiry
from tests.database.plans.filling import fill
from tests.plans import indexes_used
from wms.kernel.db import database_now


@pytest.mark.django_db(transaction=True)  # so that the tables can be vacuumed, as they always are
def test_the_expirer_finds_open_leases_by_their_index(monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    # Far fewer than there are, as when a thousand of ten thousand are ended at once: any index that has the order of
    # the query seems to lead to them soon, also one of all leases.
    monkeypatch.setattr(expiry, "ENDED_AT_ONCE", 10)
    used = indexes_used(lambda: expiry.over(now=database_now()))
    assert "match_open" in used
    assert "matching_match_pkey" not in used
