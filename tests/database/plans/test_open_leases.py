"""Tasks of every few seconds read the open leases, however many leases there ever were."""

import pytest
from django.db import connection

from matching.services import expiry
from tests.database.plans.filling import fill
from tests.plans import indexes_used
from wms.kernel.db import database_now

#: Indexes that have open leases only.
OF_OPEN_LEASES = {"match_open", "job_has_at_most_one_open_match"}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # so that the tables can be vacuumed, as they always are
def test_the_expirer_finds_open_leases_by_their_index(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        # The archive counts pilots from 1.
        cursor.execute("TRUNCATE pilots_pilot RESTART IDENTITY CASCADE")
    fill()
    # Far fewer than there are, as when a thousand of ten thousand are ended at once: any index that has the order of
    # the query seems to lead to them soon, also one of all leases.
    monkeypatch.setattr(expiry, "ENDED_AT_ONCE", 10)
    used = indexes_used(lambda: expiry.over(now=database_now()))
    # Which of the two depends on the order in which the archive's leases were inserted.
    assert used & OF_OPEN_LEASES
    assert used <= OF_OPEN_LEASES | {"pilot_alive_at_queue"}
