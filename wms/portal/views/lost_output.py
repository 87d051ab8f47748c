"""Jobs that are Done, and of whose output a part is stored nowhere: how many need attention."""

from collections.abc import Mapping
from dataclasses import dataclass

from wms.accounts.models import User
from wms.jobs.domain.causes import LOST_OUTPUT
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries import summary
from wms.portal.search import EVERYBODY, query_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOutput:
    """Jobs of a list whose output is not all there; ≥ 1."""

    jobs: int
    #: Query string of the list of these jobs.
    query: str


def lost_output(filters: Mapping[str, str], *, by: User) -> LostOutput | None:
    """Return the jobs without all of their output among those that *filters* find; None: there are none."""
    lost = JobFilterSet({**filters, "status": JobStatus.DONE, "cause": LOST_OUTPUT})
    jobs = sum(tally.count for tally in summary(lost, by=by, group_by=("status",)))
    query = query_of({"owner": EVERYBODY, **filters}, status=JobStatus.DONE, cause=LOST_OUTPUT)
    return LostOutput(jobs=jobs, query=query) if jobs else None
