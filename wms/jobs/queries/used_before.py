"""The amounts that the last jobs of a name used."""

from itertools import islice
from typing import Final

from wms.accounts.models import User
from wms.jobs.domain.asked_and_used import UsedAmounts
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, SubmissionContent

#: Submissions of the owner among which those of the name are looked for, and those of these that are read.
_MOST_SUBMISSIONS: Final = 50
_MOST_READ: Final = 3
_MOST_JOBS: Final = 500


def used_before(owner: User, name_stem: str) -> UsedAmounts:
    """Return what the last jobs of *owner* used which are Done and whose submissions have this stem of names."""
    # Uses index: content_of_owner
    latest = SubmissionContent.objects.filter(owner=owner).order_by("-first_job_id").values_list("pk", "name_prefix")
    named = islice((pk for pk, prefix in latest[:_MOST_SUBMISSIONS] if prefix == name_stem), _MOST_READ)
    # Uses index: job_of_submission
    done = Job.objects.filter(submission__in=list(named), status=JobStatus.DONE, cpu_s__isnull=False)
    rows = list(done.values_list("cpu_s", "max_memory_mb")[:_MOST_JOBS])
    return UsedAmounts(
        jobs=len(rows),
        cpu_s=max((cpu_s or 0.0 for cpu_s, _ in rows), default=0.0),
        memory_mb=max((memory_mb or 0.0 for _, memory_mb in rows), default=0.0),
    )
