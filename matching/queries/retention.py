"""Numbers and sizes of the ended jobs and pilots that are old enough to be removed (ADR 100)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Count, Min

from pilots.models import Pilot
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import FINAL
from wms.jobs.queries.retention import PILOTS, ages_days
from wms.kernel.db import array_of

#: Jobs whose rows are measured.
_MEASURED: Final = 1000
#: Size of the row of a pilot, about.
_BYTES_OF_PILOT: Final = 500

# Uses index: content_since, submission_job_count_is_one_row, job_of_submission
_DUE: Final = """
    SELECT count(*), min(ended_at), (array_agg(job.id))[:%(measured)s]
      FROM jobs_submissioncontent AS content
      JOIN jobs_job AS job USING (submission_id)
     WHERE content.vo_id = %(vo)s AND content.submitted_at < %(before)s
       AND job.status = %(status)s AND job.ended_at < %(before)s
       AND NOT EXISTS (
           SELECT FROM jobs_submissionjobcount AS count
            WHERE count.submission_id = content.submission_id AND count.status <> ALL(%(final)s) AND count.jobs > 0
       )
"""

# Uses index: matching_match_job_id_aeda778d, jobs_jobhistory_pkey
_BYTES: Final = """
    SELECT coalesce(sum(bytes), 0)
      FROM (SELECT pg_column_size(its.*) FROM jobs_job AS its WHERE id = ANY(%(ids)s::bigint[])
            UNION ALL
            SELECT pg_column_size(its.*) FROM jobs_jobhistory AS its WHERE job_id = ANY(%(ids)s::bigint[])
            UNION ALL
            SELECT pg_column_size(its.*) FROM jobs_outputtail AS its WHERE job_id = ANY(%(ids)s::bigint[])
            UNION ALL
            SELECT pg_column_size(its.*) FROM jobs_usagesamples AS its WHERE job_id = ANY(%(ids)s::bigint[])
            UNION ALL
            SELECT pg_column_size(its.*) FROM matching_match AS its WHERE job_id = ANY(%(ids)s::bigint[])
           ) AS its (bytes)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The jobs of a VO in one final status, or its pilots, that are old enough to be removed."""

    #: The status, or PILOTS.
    kind: str
    #: 0: they are kept for ever.
    age_days: int
    #: Jobs, or pilots; also of these those that have a lease of a job that stays.
    number: int
    #: Of their rows, without indexes: estimated from some of them.
    size_bytes: int
    #: End of the oldest; None: there are none.
    oldest: datetime | None


def due(vo: VO, *, now: datetime) -> Sequence[Due]:
    """Return what would be removed of a VO, whether an operator has allowed it or not; one entry for each kind."""
    return [_due(vo, kind, days, now=now) for kind, days in ages_days(vo).items()]


def _due(vo: VO, kind: str, days: int, *, now: datetime) -> Due:
    if days == 0:
        return Due(kind=kind, age_days=0, number=0, size_bytes=0, oldest=None)
    if kind == PILOTS:
        # Uses index: pilots_pilot_vo_id_4b309731
        old = Pilot.objects.filter(vo=vo, ended_at__lt=now - timedelta(days=days))
        found = old.aggregate(number=Count("pk"), oldest=Min("ended_at"))
        return Due(kind=kind, age_days=days, size_bytes=found["number"] * _BYTES_OF_PILOT, **found)
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE,
            {
                "vo": vo.pk,
                "status": kind,
                "before": now - timedelta(days=days),
                "final": sorted(FINAL),
                "measured": _MEASURED,
            },
        )
        jobs, oldest, some = cursor.fetchone()
        cursor.execute(_BYTES, {"ids": array_of(some or ())})
        (size_bytes,) = cursor.fetchone()
    estimated = size_bytes * jobs // max(1, len(some or ()))
    return Due(kind=kind, age_days=days, number=jobs, size_bytes=int(estimated), oldest=oldest)
