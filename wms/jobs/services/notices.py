"""Mail to the owner of a submission when all of its jobs have ended: one message for a submission, whatever runs twice.

The row that marks the submission is deleted in the transaction that decides about the message, which is sent after
that. A process that ends in between loses this message; a mail server that refuses it gets it again some times.
"""

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from smtplib import SMTPRecipientsRefused, SMTPResponseException
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.db.models import Sum

from wms.accounts.domain import MailWhen
from wms.accounts.models import User
from wms.accounts.services import mail_address
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.domain.notices import MAX_OPEN_NOTICES, EndedSubmission, is_wanted, subject_of, text_of
from wms.jobs.models import CurrentSubmissionJobCount, Submission, SubmissionNotice
from wms.kernel.db import transaction_required

logger = logging.getLogger(__name__)

#: Submissions that a run looks at, those that were not looked at for longest first.
AT_ONCE: Final = 1000
#: Messages that a run sends: with a server that takes 10 s for each, it still ends within the lifetime of a task.
MESSAGES_AT_ONCE: Final = 100
#: Time until a submission with unfinished jobs is looked at again.
LOOK_EVERY: Final = timedelta(seconds=60)
#: Attempts to send a message that the mail server refuses, and the time between two of them.
MAX_ATTEMPTS: Final = 5
RETRY_AFTER: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    submission_id: UUID
    owner_id: int
    address: str
    about: EndedSubmission
    attempts: int


def is_on() -> bool:
    """Return whether this server sends mail."""
    return bool(settings.WMS_EMAIL_URL)


@transaction_required
def expect(submission: Submission, *, owner: User) -> None:
    """Mark the new submission if its owner wants mail about it, and not too many others are marked."""
    if not is_on() or owner.mail_when == MailWhen.NEVER or not mail_address(owner):
        return
    if open_notices(owner) < MAX_OPEN_NOTICES:
        SubmissionNotice.objects.create(submission=submission, owner=owner, due_at=submission.submitted_at + LOOK_EVERY)


def open_notices(owner: User) -> int:
    """Return the number of submissions of *owner* that wait for their message, MAX_OPEN_NOTICES at most."""
    # Uses index: notice_of_owner
    return SubmissionNotice.objects.filter(owner=owner)[:MAX_OPEN_NOTICES].count()


def send_due(*, now: datetime) -> int:
    """Send mail about the marked submissions that have ended, and return the number of messages that were sent."""
    if not is_on():
        return 0
    due = SubmissionNotice.objects.filter(due_at__lte=now).order_by("due_at", "pk")
    looked_at = list(due.values_list("pk", flat=True)[:AT_ONCE])
    unfinished = _unfinished(looked_at)
    SubmissionNotice.objects.filter(pk__in=unfinished).update(due_at=now + LOOK_EVERY)
    ended = [pk for pk in looked_at if pk not in unfinished][:MESSAGES_AT_ONCE]
    if not ended:
        return 0
    try:
        # Opened before any mark is deleted: while the server is down, all messages wait.
        with get_connection() as connection:
            return _send_all(ended, connection, now=now)
    except OSError as error:  # all errors of smtplib are of this kind
        logger.warning("notice.no_mail_server", extra={"error": str(error), "waiting": len(ended)})
        return 0


def _send_all(ended: Collection[UUID], connection: BaseEmailBackend, *, now: datetime) -> int:
    sent = 0
    for submission_id in ended:
        message = _take(submission_id)
        if message is None:
            continue
        try:
            _mail(message, connection).send()
        except OSError as error:
            _put_back(message, error, now=now)
            if not isinstance(error, SMTPResponseException | SMTPRecipientsRefused):
                break  # the connection is broken
        else:
            sent += 1
            logger.info("notice.sent", extra={"submission": str(submission_id), "owner_id": message.owner_id})
    return sent


@transaction.atomic(durable=True)
def _take(submission_id: UUID) -> _Message | None:
    """Delete the mark and return the message; None: another run has taken it, or there is nothing to send.

    With the commit the message is this run's alone.
    """
    marks = SubmissionNotice.objects.select_related("submission__content", "owner")
    notice = marks.select_for_update(of=("self",)).filter(pk=submission_id).first()
    if notice is None or _unfinished([submission_id]):
        return None
    about = _ended(notice.submission)
    SubmissionNotice.objects.filter(pk=submission_id).delete()
    owner, address = notice.owner, mail_address(notice.owner)
    if not owner.is_active or not address or not is_wanted(MailWhen(owner.mail_when), about):
        return None
    return _Message(
        submission_id=submission_id, owner_id=owner.pk, address=address, about=about, attempts=notice.attempts
    )


def _put_back(message: _Message, error: Exception, *, now: datetime) -> None:
    """Mark the submission again, so that the message is sent later, unless it was refused too often."""
    attempts = message.attempts + 1
    facts = {"submission": str(message.submission_id), "owner_id": message.owner_id, "error": str(error)}
    if attempts >= MAX_ATTEMPTS:
        logger.warning("notice.given_up", extra=facts)
        return
    logger.warning("notice.refused", extra=facts)
    SubmissionNotice.objects.create(
        submission_id=message.submission_id, owner_id=message.owner_id, due_at=now + RETRY_AFTER, attempts=attempts
    )


def _mail(message: _Message, connection: BaseEmailBackend) -> EmailMessage:
    """Return the mail; a message that is sent again has the same id, by which mail servers know that it is the same."""
    host = urlsplit(settings.WMS_SERVER_URL).hostname
    headers = {"Message-ID": f"<submission-{message.submission_id}@{host}>", "Auto-Submitted": "auto-generated"}
    return EmailMessage(
        subject_of(message.about),
        text_of(message.about),
        settings.WMS_EMAIL_FROM,
        [message.address],
        headers=headers,
        connection=connection,
    )


def _unfinished(submission_ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of the submissions that have a job which has not ended."""
    # Uses index: submission_job_count_is_one_row
    open_jobs = (
        CurrentSubmissionJobCount.objects.filter(submission__in=submission_ids)
        .exclude(status__in=FINAL)
        .values("submission_id")
        .annotate(jobs_left=Sum("jobs"))
        .filter(jobs_left__gt=0)
    )
    return frozenset(open_jobs.values_list("submission_id", flat=True))


def _ended(submission: Submission) -> EndedSubmission:
    rows = CurrentSubmissionJobCount.objects.filter(submission=submission).values_list("status", "exit_code", "jobs")
    jobs: Counter[str] = Counter()
    failures: Counter[int | None] = Counter()
    for status, exit_code, count in rows:
        jobs[status] += count
        if status == JobStatus.FAILED:
            failures[exit_code] += count
    content = submission.content if hasattr(submission, "content") else None
    return EndedSubmission(
        id=submission.pk,
        name=(content.job_group or content.name_prefix) if content else "",
        submitted_at=submission.submitted_at,
        jobs=+jobs,
        failures=+failures,
        url=f"{settings.WMS_SERVER_URL.rstrip('/')}/submissions/{submission.pk}/",
    )
