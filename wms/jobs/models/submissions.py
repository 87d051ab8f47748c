"""Submissions, their notices by mail, their canaries, and what their jobs have in common."""

from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from wms.accounts.models import VO, Group, User
from wms.jobs.models.visibility import OwnedQuerySet


class Submission(models.Model):
    """One row is one request that submitted jobs; its id is the job-group id of all of them."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    owner = models.ForeignKey(User, models.PROTECT, related_name="submissions", db_index=False)
    group = models.ForeignKey(Group, models.PROTECT, related_name="submissions", db_index=False)
    submitted_at = models.DateTimeField()
    request_id = models.UUIDField(
        null=True, help_text="Idempotency key: a repeated request of its owner returns the first response."
    )
    body_digest = models.BinaryField(max_length=32, help_text="SHA-256 of the request; a different body is a conflict.")
    answer = models.JSONField(null=True, help_text="Response, repeated for the same request_id.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="request_id_is_used_once_by_its_owner",
                fields=["owner", "request_id"],
                condition=Q(request_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class SubmissionNotice(models.Model):
    """One row is one submission whose owner wants mail when it has ended; the row is deleted before the mail is sent.

    So a submission gets one message at most: what is rescheduled after it is not reported again.
    """

    submission = models.OneToOneField(Submission, models.CASCADE, primary_key=True, related_name="notice")
    owner = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False, help_text="Of the submission.")
    due_at = models.DateTimeField(help_text="Time of the next look whether all jobs have ended.")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Number of times that its mail was refused.")

    class Meta:
        indexes = [models.Index(name="notice_of_owner", fields=["owner"])]  # each submission of who wants mail asks

    def __str__(self) -> str:
        return f"notice of submission {self.submission_id}"


class SubmissionCanary(models.Model):
    """One row is one submission whose other jobs are Held until its canaries are Done (ADR 118).

    The row is deleted when none of them is held for this reason any more.
    """

    submission = models.OneToOneField(Submission, models.CASCADE, primary_key=True, related_name="canary")
    job_ids = ArrayField(models.BigIntegerField(), help_text="Of the canaries.")
    reason = models.CharField(max_length=255, help_text="Minor status of the jobs that it holds.")
    due_at = models.DateTimeField(help_text="Time of the next look whether the canaries are Done.")

    def __str__(self) -> str:
        return f"canaries of submission {self.submission_id}"


class NameRest(models.TextChoices):
    """The kind of text after the beginning that the names of a submission's jobs share."""

    NOTHING = "nothing"
    DIGITS = "digits"
    ANYTHING = "anything"


class CommonOfJobs(models.Model):
    """Base of the rows with the values that all jobs of a submission have; null: the jobs differ in it."""

    submitted_at = models.DateTimeField(null=True)
    job_type = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty text
    job_group = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty label
    name_prefix = models.CharField(max_length=255, help_text="Beginning of the names of all jobs.")
    name_rest = models.CharField(max_length=8, choices=NameRest, help_text="What follows on it.")

    class Meta:
        abstract = True


class SubmissionContent(CommonOfJobs):
    """One row is what the jobs of a submission have in common, by which lists and summaries find them (ADR 59).

    Triggers of the table of jobs write it. Few labels and stems of names that the jobs differ in are noted; these two
    are null if they do not differ.
    """

    # No constraints: these are copies from the rows of jobs.
    submission = models.OneToOneField(
        Submission, models.CASCADE, primary_key=True, related_name="content", db_constraint=False
    )
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    labels = ArrayField(
        models.CharField(max_length=255),
        null=True,
        help_text="Labels of jobs that differ in them; empty: there are more than 16.",
    )
    name_stems = ArrayField(
        models.CharField(max_length=255),
        null=True,
        help_text="Names, without digits at their ends, of jobs that differ in them; empty: there are more than 16.",
    )
    first_job_id = models.BigIntegerField()
    last_job_id = models.BigIntegerField()

    objects = OwnedQuerySet.as_manager()

    class Meta:
        indexes = [
            # Of an owner, also in the order of their jobs: ``queries.submissions.of_owner``.
            models.Index(name="content_of_owner", fields=["owner", "first_job_id"]),
            models.Index(name="content_of_group", fields=["group"]),
            models.Index(name="content_with_label", fields=["job_group"]),
            models.Index(name="content_with_name", fields=["name_prefix"], opclasses=["varchar_pattern_ops"]),
            models.Index(name="content_since", fields=["submitted_at"]),
            # Of submissions with few values; no other one writes them. Without lists of pending entries, which each
            # query would read.
            GinIndex(
                name="content_with_labels", fields=["labels"], fastupdate=False, condition=Q(labels__isnull=False)
            ),
            GinIndex(
                name="content_with_name_stems",
                fields=["name_stems"],
                fastupdate=False,
                condition=Q(name_stems__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"content of submission {self.submission_id}"
