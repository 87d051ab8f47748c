"""How the match reads its tables: by keys, never from end to end, whatever their sizes and statistics."""

from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection

from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from tests.factories import NOW, make_group, make_job, make_pilot, make_queue, make_user

pytestmark = pytest.mark.django_db(transaction=True)

#: Of these a match may not read all rows. The small ones beside them (sites, queues) are read by key too.
LARGE = ("jobs_job", "jobs_jobhistory", "jobs_inputsandbox", "taskqueues_queuedjob", "matching_match", "pilots_pilot")


def sequential_scans() -> dict[str, int]:
    """Return how often each large table was read from end to end so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname = ANY(%s) ORDER BY relname", [list(LARGE)]
        )
        return dict(cursor.fetchall())


@pytest.mark.parametrize("analysed", ["before the jobs came", "with the jobs"])
def test_no_large_table_is_scanned_on_the_path_of_a_match(analysed: str) -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    # So many that they fill more than a page; a table of one page is read as it is.
    Pilot.objects.bulk_create([Pilot(vo=group.vo, submitted_at=NOW) for _ in range(500)])
    if analysed == "before the jobs came":
        analyse()
    for number in range(60):
        make_job(group=group, owner=owner, cpu_time_s=500 if number % 2 else 5000, priority=1 + number % 3)
    if analysed == "with the jobs":
        analyse()
    pilot, chance = make_pilot(vo=group.vo, queue=make_queue()), Random(1)

    def ask(request_id: UUID | None = None) -> int:
        offer = OfferRequest(cpu_time_s=300_000)
        leases = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
        return len(leases)

    assert ask() == 1  # the index has counted what waits
    before = sequential_scans()
    assert before.keys() == set(LARGE)
    same = uuid4()
    assert [ask(same), ask(same), *(ask() for _ in range(20))] == [1] * 22
    assert sequential_scans() == before


def analyse() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
