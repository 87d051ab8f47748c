"""Pages of what jobs wait for and of the administration, and beat's question, are read by indexes."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import pytest
from django.test import Client

from matching.queries.explain.explanation import explain_selection
from matching.queries.rest import is_at_rest
from matching.queries.site_status import site_sums, statuses_of
from matching.queries.task_queues import newest_jobs
from resources.models import Site
from tests.database.plans.filling import Filled, fill
from tests.plans import indexes_used
from wms.jobs import queries
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries.found_jobs import Extent
from wms.jobs.queries.sorted_jobs import Order, sorted_part
from wms.kernel.db import database_now


def site_page(filled: Filled) -> object:
    ended = JobFilterSet({"owner": filled.owner.username, "status": "Done,Failed"})
    now = database_now()
    sums = site_sums(now=now).of_vos(None)
    return statuses_of(list(Site.objects.all()), sums=sums, own_ended=ended, by=filled.owner, now=now)


def selection(filled: Filled) -> object:
    waiting = JobFilterSet({"owner": filled.large_owner.username, "status": "Waiting"})
    return explain_selection(waiting, by=filled.large_owner, now=database_now())


def sorted_jobs(filled: Filled) -> object:
    order = Order(by="changed", is_descending=True)
    return sorted_part(JobFilterSet({"owner": filled.owner.username}), order, by=filled.owner, at_most=50)


def jobs_of_task_queue(filled: Filled) -> object:
    filters = JobFilterSet({"task_queue": str(filled.task_queue.pk)})
    return queries.listed(filters, Extent(at_most=51), by=filled.operator)


def leases_on_host(filled: Filled) -> object:
    """Return the rows of the page of a host's leases, of a period that begins before all of them."""
    query = urlencode({"host": filled.pilot.host_name, "since": "2000-01-01"})
    client = Client()
    client.force_login(filled.manager)
    rows = client.get(f"/leases/?{query}").context["rows"]
    assert rows
    return rows


def all_leases(filled: Filled) -> object:
    """Return the rows of the page of leases, of a period that begins before all of them."""
    client = Client()
    client.force_login(filled.manager)
    rows = client.get("/leases/?since=2000-01-01").context["rows"]
    assert rows
    return rows


def in_admin(address: str) -> Callable[[Filled], object]:
    """Return the request of an operator for a list of the administration; braces stand for rows' keys and names."""

    def ask(filled: Filled) -> object:
        filled.operator.is_staff = True
        filled.operator.save()
        client = Client()
        client.force_login(filled.operator)
        there = {"job": filled.job.pk, "pilot": filled.pilot.pk, "host": filled.pilot.host_name}
        answer = client.get(f"/admin/{address.format(**there, owner=filled.owner.username)}")
        assert answer.status_code == 200
        return answer

    return ask


#: {name of a page, or of beat's question whether anything is to be done: its query, and the indexes that it must use}.
PAGES: Final[Mapping[str, tuple[Callable[[Filled], object], frozenset[str]]]] = {
    "site": (site_page, frozenset({"match_ended", "job_count_of_site", "pilot_alive_at_queue"})),
    "task queue": (lambda filled: newest_jobs(filled.task_queue), frozenset({"queued_job_oldest_of_its_kind"})),
    "selection": (selection, frozenset({"job_of_its_kind"})),
    "sorted jobs": (sorted_jobs, frozenset({"job_of_its_kind", "jobs_job_pkey"})),
    "rest": (lambda _: is_at_rest(), frozenset({"match_open", "pilot_alive_at_queue", "task_queue_change_xid"})),
    "admin jobs": (in_admin("jobs/job/"), frozenset({"jobs_job_pkey"})),
    "admin job by id": (in_admin("jobs/job/?q={job}"), frozenset({"jobs_job_pkey"})),
    "admin jobs by owner": (in_admin("jobs/job/?q={owner}"), frozenset({"job_of_its_kind"})),
    "admin pilots by host": (in_admin("pilots/pilot/?q={host}"), frozenset({"pilot_latest_on_host"})),
    "admin matches": (in_admin("matching/match/"), frozenset({"matching_match_job_id_aeda778d"})),
    "admin matches by pilot": (
        in_admin("matching/match/?q={pilot}"),
        frozenset({"a_request_of_a_pilot_gets_its_leases_once"}),
    ),
    "leases on a host": (
        leases_on_host,
        frozenset({"pilot_latest_on_host", "a_request_of_a_pilot_gets_its_leases_once"}),
    ),
    "leases of all hosts": (all_leases, frozenset({"match_leased"})),
    "jobs of a task queue": (jobs_of_task_queue, frozenset({"queued_job_oldest_of_its_kind", "jobs_job_pkey"})),
}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # so that the tables can be vacuumed, as they always are
def test_each_page_reads_by_its_indexes(subtests: pytest.Subtests) -> None:
    filled = fill()
    for name, (query, indexes) in PAGES.items():
        with subtests.test(name):
            used = indexes_used(lambda query=query: query(filled))  # type: ignore[misc]  # bound at once
            assert indexes <= used
