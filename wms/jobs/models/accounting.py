"""The accounting of jobs: numbers over time, in buckets (ADR 64)."""

from django.db import models
from django.db.models import Q

from resources.models import Site
from wms.accounts.models import VO, Group, User
from wms.jobs.models.visibility import OwnedQuerySet


class BucketOfJobs(models.Model):
    """One row is what jobs with the same properties did in one hour, one day, or one week.

    Only ``services.accounting`` writes rows. Each start and each end is in three: of its hour, its day and its week.
    """

    width_s = models.IntegerField(help_text="Length of the bucket, as in ``domain.accounting.Width``.")
    begun_at = models.DateTimeField()

    started = models.IntegerField(db_default=0, help_text="Starts of payloads; one that stalls and goes on is one.")
    done = models.IntegerField(db_default=0)
    failed = models.IntegerField(db_default=0)
    killed = models.IntegerField(db_default=0)
    cpu_s = models.FloatField(db_default=0.0, help_text="CPU time of the jobs that ended.")
    wall_s = models.FloatField(db_default=0.0, help_text="Wall-clock time times processors of the jobs that ended.")
    # Sums over the samples of the bucket, whose number is in JobBucketPeriod.
    running = models.FloatField(db_default=0.0, help_text="Jobs that a pilot had.")
    waiting = models.FloatField(db_default=0.0, help_text="Other jobs in a task queue, or about to be.")
    waiting_unmatched = models.FloatField(db_default=0.0, help_text="Jobs in a task queue that no batch queue fits.")
    waiting_for_data = models.FloatField(db_default=0.0, help_text="Jobs of which no site held all input data.")
    waiting_for_room = models.FloatField(db_default=0.0, help_text="Jobs whose quota of waiting jobs was full.")
    held = models.FloatField(db_default=0.0)

    class Meta:
        abstract = True


class JobBucket(BucketOfJobs):
    """The jobs of an owner in a group, at one site and of one type."""

    # No constraints: these are copies from the rows of jobs.
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    site = models.ForeignKey(
        Site,
        models.DO_NOTHING,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
        help_text="Null: the jobs had no site, as while they wait.",
    )
    job_type = models.CharField(max_length=255)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            # Also finds the rows of a span.
            models.UniqueConstraint(
                name="job_bucket_is_one_row",
                fields=["width_s", "begun_at", "owner", "group", "site", "job_type"],
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"bucket {self.pk}"


class JobBucketSum(BucketOfJobs):
    """All jobs with one value of one property: sums of JobBucket, for operators, who see all."""

    grouping = models.CharField(max_length=8, help_text="The property, as in ``domain.accounting.Grouping``.")
    key = models.BigIntegerField(help_text="The site, user or group; 0: none, or the property is the type.")
    job_type = models.CharField(max_length=255, help_text="Empty: none, or the property is another.")

    class Meta:
        constraints = [
            # Also finds the rows of a span.
            models.UniqueConstraint(
                name="job_bucket_sum_is_one_row",
                fields=["width_s", "grouping", "begun_at", "key", "job_type"],
            ),
        ]

    def __str__(self) -> str:
        return f"sum {self.pk}"


class JobBucketPeriod(models.Model):
    """One row is one hour, day or week in which levels were sampled."""

    pk = models.CompositePrimaryKey("width_s", "begun_at")
    width_s = models.IntegerField()
    begun_at = models.DateTimeField()
    samples = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.samples} samples from {self.begun_at}"


class Accounting(models.Model):
    """The one row is the state of the accounting of jobs; without it, accounting has not begun."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    seen = models.TextField(help_text="Position in the stream of changes: a snapshot (ADR 62).")
    began_at = models.DateTimeField(help_text="What happened earlier is in no bucket.")
    sampled_at = models.DateTimeField(null=True, help_text="Last sample of levels.")
    runs = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(name="accounting_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"accounting since {self.began_at}"
