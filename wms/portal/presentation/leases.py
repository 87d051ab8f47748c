"""The list of leases: who ran where and when."""

from dataclasses import dataclass
from datetime import datetime

from matching.models import Match


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseListRow:
    """One lease in the list."""

    job_id: int
    owner: str
    group: str
    pilot_id: int
    host: str
    site: str
    #: CE and queue.
    place: str
    leased_at: datetime
    ended_at: datetime | None
    #: How it ended; empty: it is open.
    end: str


def lease_list_row_of(lease: Match) -> LeaseListRow:
    """Return the row of *lease*, which is read as by ``leases_seen_by``."""
    queue = lease.queue
    return LeaseListRow(
        job_id=lease.job_id,
        owner=lease.job.owner.username,
        group=lease.job.group.name,
        pilot_id=lease.pilot_id,
        host=lease.pilot.host_name,
        site=queue.ce.site.name if queue else "",
        place=f"{queue.ce.name} / {queue.name}" if queue else "",
        leased_at=lease.leased_at,
        ended_at=lease.ended_at,
        end=lease.end_reason.replace("_", " "),
    )
