"""Reasons why a job is Checking: the present state of its input data, or a quota of waiting jobs (PIL §2.2)."""

from typing import Final

from taskqueues.services.quotas import QuotaKind, full_in_words
from wms.jobs.domain.data import WAITS_FOR_ROOM, narrowed
from wms.jobs.models import Job
from wms.jobs.services.input_data import Located
from wms.kernel.names import listed

_WHEN: Final = "it goes into one when a site where it may run holds all of its input data"


def why_checking(job: Job) -> str:
    """Return in a sentence why a Checking job is in no task queue, and what would change that."""
    why = f" ({job.minor_status})" if job.minor_status else ""
    return f"It is being checked{why} and is in no task queue yet: {_reason(job)}."


def quota_that_holds_back(job: Job) -> tuple[str, ...]:
    """Return the quota of waiting jobs that is full for the job, whose input data are available; empty: none."""
    full = _full_quota(job) if job.minor_status == WAITS_FOR_ROOM else ""
    return (full,) if full else ()


def _reason(job: Job) -> str:
    description = job.description
    files = tuple(description["input_data"])
    located = Located([files], vo_id=job.vo_id)
    missing, holding = located.missing(files), located.sites(files)
    if missing:
        return f"{_WHEN}, and no replica is registered of {listed(missing)}"
    if not holding:
        return f"{_WHEN}, and at present none does, though each file has a replica" if files else _WHEN
    if narrowed(description["sites"], banned_sites=description["banned_sites"], holding=holding) is None:
        return f"{_WHEN}; they are at {listed(holding)}, where its sites and banned_sites do not let it run"
    full = _full_quota(job)
    # Changes take effect within seconds.
    return f"its input data are there, but {full}; it waits for room" if full else "it goes into one in seconds"


def _full_quota(job: Job) -> str:
    return full_in_words(QuotaKind.of(job))
