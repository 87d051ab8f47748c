"""The removal of ended jobs, with all that only they need, and of ended pilots, at ages that a VO sets (ADR 100)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, takewhile
from typing import Final
from uuid import UUID

from django.db import connection, transaction

from matching.services import job_archive
from taskqueues.models import UsageCounter
from wms.jobs.models import Accounting, RemovalSweep
from wms.jobs.queries.retention import PILOTS, ends_of_keeping
from wms.jobs.sql.retention import OldSubmission, next_submissions, remove_descriptions, remove_jobs
from wms.kernel.db import LockKey, array_of, transaction_required, try_lock
from wms.kernel.trusted_paths import UntrustedPathError

logger = logging.getLogger(__name__)

#: Jobs removed in one transaction, except that a submission is not divided; and submissions that are looked at for it.
JOBS_TOGETHER: Final = 5000
_SUBMISSIONS_TOGETHER: Final = 2000
#: Transactions of one run; the next run, a minute later, continues.
PAGES_OF_RUN: Final = 40
#: Time from the end of a sweep to the begin of the next: ages are in days.
REST: Final = timedelta(hours=1)
#: Age of the mark of a retired description at which it may be removed. No transaction lasts as long.
DESCRIPTION_GRACE: Final = timedelta(days=1)
_DESCRIPTIONS_TOGETHER: Final = 10_000
#: Before the first submission.
_BEGIN: Final = datetime(1, 1, 1, tzinfo=UTC)
_NO_SUBMISSION: Final = UUID(int=0)

#: Locks all jobs of the submissions, so that none of them changes until the end of the transaction, and each has ended.
#: A submission with a job that another transaction has locked is left out. A job that accounting has not read yet is
#: kept: its snapshot lacks a line of history, or a lease ended after the time up to which usage is counted.
# Uses index: job_of_submission, matching_match_job_id_aeda778d, jobs_jobhistory_pkey
_REMOVABLE: Final = """
    WITH held AS MATERIALIZED (
        SELECT id, submission_id, vo_id, status, ended_at FROM jobs_job
         WHERE submission_id = ANY(%(submissions)s::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED
    ), whole AS MATERIALIZED (
        SELECT submission_id FROM held GROUP BY submission_id
        HAVING bool_and(ended_at IS NOT NULL)
           AND count(*) = (SELECT count(*) FROM jobs_job AS job WHERE job.submission_id = held.submission_id)
    )
    SELECT held.id
      FROM held
      JOIN whole USING (submission_id)
      JOIN unnest(%(vos)s::bigint[], %(statuses)s::text[], %(ends)s::timestamptz[]) AS keeping (vo_id, status, until)
        ON keeping.vo_id = held.vo_id AND keeping.status = held.status AND held.ended_at < keeping.until
     WHERE NOT EXISTS (
           SELECT FROM matching_match AS lease
            WHERE lease.job_id = held.id AND (lease.ended_at <= %(counted_until)s) IS NOT TRUE
           )
       AND NOT EXISTS (
           SELECT FROM jobs_jobhistory AS line
            WHERE line.job_id = held.id
              AND NOT pg_visible_in_snapshot(line.transaction_number::text::xid8, %(seen)s::pg_snapshot)
           )
     ORDER BY held.id
"""


# Uses index: pilots_pilot_pkey
_NEXT_PILOTS: Final = """
    SELECT id FROM pilots_pilot WHERE id > %(last)s AND submitted_at < %(before)s ORDER BY id LIMIT %(most)s
"""
#: Of a pilot with a lease the job is still there.
# Uses index: a_request_of_a_pilot_gets_its_leases_once
_REMOVABLE_PILOTS: Final = """
    SELECT pilot.id
      FROM pilots_pilot AS pilot
      JOIN unnest(%(vos)s::bigint[], %(ends)s::timestamptz[]) AS keeping (vo_id, until) USING (vo_id)
     WHERE pilot.id = ANY(%(ids)s::bigint[]) AND pilot.ended_at < keeping.until
       AND NOT EXISTS (SELECT FROM matching_match AS lease WHERE lease.pilot_id = pilot.id)
     ORDER BY pilot.id
       FOR UPDATE OF pilot SKIP LOCKED
"""
_REMOVE_PILOTS: Final = (
    "DELETE FROM pilots_pilotlogpart WHERE log_id = ANY(%s::bigint[])",
    "DELETE FROM pilots_pilotlog WHERE pilot_id = ANY(%s::bigint[])",
    "DELETE FROM pilots_pilotsecret WHERE pilot_id = ANY(%s::bigint[])",
    "DELETE FROM pilots_pilot WHERE id = ANY(%s::bigint[])",
)
# Uses index: matching_match_job_id_aeda778d
_REMOVE_LEASES: Final = "DELETE FROM matching_match WHERE job_id = ANY(%s::bigint[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """The conditions under which a run removes jobs and pilots."""

    #: {(VO id, final status of jobs, or PILOTS): end of what is removed}.
    ends: Mapping[tuple[int, str], datetime]
    #: Usage of leases is counted up to this time.
    counted_until: datetime
    #: Lines of history that accounting has read: a snapshot.
    seen: str
    now: datetime


def remove_ended(*, now: datetime) -> int:
    """Continue the sweep through the submissions, the oldest first; return how many jobs were removed.

    A job is removed, with all rows about it, if it is older than the age of its VO and status, an operator has allowed
    that, each job of its submission has ended, none of its leases is open, and accounting has counted it. Nothing is
    removed before accounting has begun. With WMS_ARCHIVE_DIR a job is in the archive before it is removed; if that
    fails, nothing more is removed in this run.
    """
    removed = 0
    try:
        for _ in range(PAGES_OF_RUN):
            page = _remove_page(now)
            if page is None:
                break
            removed += page
    except (job_archive.JobArchiveError, UntrustedPathError, OSError) as error:
        logger.error("archive.failed", extra={"error": str(error)})  # noqa: TRY400 - the sentence says all
    if removed:
        logger.info("jobs.removed", extra={"removed": removed})
    return removed


@transaction.atomic(durable=True)
def _remove_page(now: datetime) -> int | None:
    """Remove the jobs of the next submissions, and return their number; None: none is to come now."""
    # Anew in each transaction: somebody may have stopped the removal, or set a longer age.
    rule = _rule(now)
    if rule is None or not try_lock(LockKey.REMOVE_ENDED):
        return None
    sweep, _ = RemovalSweep.objects.get_or_create(
        pk=1, defaults={"submitted_at": _BEGIN, "submission_id": _NO_SUBMISSION}
    )
    if sweep.rests_until is not None and rule.now < sweep.rests_until:
        return None
    if job_archive.is_on():
        job_archive.settle()
    page = _next_page(sweep, rule)
    if not page and _remove_others(sweep, rule):
        return 0
    if page:
        sweep.submitted_at, sweep.submission_id, sweep.rests_until = page[-1].submitted_at, page[-1].id, None
    else:
        sweep.submitted_at, sweep.submission_id, sweep.pilot_id = _BEGIN, _NO_SUBMISSION, 0
        sweep.rests_until = rule.now + REST
    sweep.save()
    return _remove([each.id for each in page], rule) if page else None


def _rule(now: datetime) -> _Rule | None:
    """Return what may be removed now; None: nothing."""
    accounting, usage = Accounting.objects.first(), UsageCounter.objects.first()
    ends = ends_of_keeping(now=now)
    if not ends or accounting is None or usage is None:
        return None
    return _Rule(ends=ends, counted_until=usage.counted_until, seen=accounting.seen, now=now)


@transaction_required
def _remove_others(sweep: RemovalSweep, rule: _Rule) -> bool:
    """Do a part of what follows on the last submission of a sweep; return whether there may be more of it."""
    if _remove_pilots(sweep, rule) or (job_archive.is_on() and job_archive.merge_a_day(now=rule.now)):
        return True
    before = rule.now - DESCRIPTION_GRACE
    return remove_descriptions(retired_before=before, at_most=_DESCRIPTIONS_TOGETHER) == _DESCRIPTIONS_TOGETHER


def _next_page(sweep: RemovalSweep, rule: _Rule) -> Sequence[OldSubmission]:
    page = next_submissions(
        sweep.submitted_at,
        sweep.submission_id,
        # A job has ended after it was submitted.
        before=max(rule.ends.values()),
        vo_ids={vo_id for vo_id, _ in rule.ends},
        at_most=_SUBMISSIONS_TOGETHER,
    )
    totals = accumulate(each.jobs for each in page)
    return page[: max(1, sum(1 for _ in takewhile(lambda total: total <= JOBS_TOGETHER, totals)))]


@transaction_required
def _remove(submission_ids: Sequence[UUID], rule: _Rule) -> int:
    job_ids = _removable(submission_ids, rule)
    if job_ids:
        if job_archive.is_on():
            job_archive.write(job_ids, now=rule.now)
        with connection.cursor() as cursor:
            cursor.execute(_REMOVE_LEASES, [array_of(job_ids)])
        remove_jobs(job_ids, submission_ids=submission_ids, now=rule.now)
    return len(job_ids)


@transaction_required
def _remove_pilots(sweep: RemovalSweep, rule: _Rule) -> bool:
    """Remove old ones of the next pilots, and move the sweep; return whether there were any to look at."""
    ends = {vo_id: end for (vo_id, kind), end in rule.ends.items() if kind == PILOTS}
    if not ends:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_PILOTS, {"last": sweep.pilot_id, "before": max(ends.values()), "most": JOBS_TOGETHER})
        ids = [pk for (pk,) in cursor.fetchall()]
        if not ids:
            return False
        cursor.execute(_REMOVABLE_PILOTS, {"ids": array_of(ids), "vos": list(ends), "ends": list(ends.values())})
        old = array_of(pk for (pk,) in cursor.fetchall())
        for statement in _REMOVE_PILOTS:
            cursor.execute(statement, [old])
    sweep.pilot_id = ids[-1]
    sweep.save(update_fields=["pilot_id"])
    return True


@transaction_required
def _removable(submission_ids: Sequence[UUID], rule: _Rule) -> list[int]:
    """Return which jobs of the submissions are to be removed, locked."""
    keys = list(rule.ends)
    with connection.cursor() as cursor:
        cursor.execute(
            _REMOVABLE,
            {
                "submissions": list(submission_ids),
                "vos": [vo_id for vo_id, _ in keys],
                "statuses": [status for _, status in keys],
                "ends": [rule.ends[key] for key in keys],
                "counted_until": rule.counted_until,
                "seen": rule.seen,
            },
        )
        return [pk for (pk,) in cursor.fetchall()]
