"""Pages of what jobs wait for, and beat's question, are read by indexes, on tables of realistic shape."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

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


#: {name of a page, or of beat's question whether anything is to be done: its query, and the indexes that it must use}.
PAGES: Final[Mapping[str, tuple[Callable[[Filled], object], frozenset[str]]]] = {
    "site": (site_page, frozenset({"match_ended", "job_count_of_site", "pilot_alive_at_queue"})),
    "task queue": (lambda filled: newest_jobs(filled.task_queue), frozenset({"queued_job_oldest_of_its_kind"})),
    "selection": (selection, frozenset({"job_of_its_kind"})),
    "sorted jobs": (sorted_jobs, frozenset({"job_of_its_kind", "jobs_job_pkey"})),
    "rest": (lambda _: is_at_rest(), frozenset({"match_open", "pilot_alive_at_queue", "task_queue_change_xid"})),
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
