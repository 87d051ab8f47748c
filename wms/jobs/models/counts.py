"""Numbers of jobs, which are counted by changes (ADR 53)."""

from django.db import models

from resources.models import Site
from wms.accounts.models import VO, Group, User
from wms.jobs.models.submissions import CommonOfJobs, Submission
from wms.jobs.models.visibility import OwnedQuerySet


class CountOfJobs(models.Model):
    """One row is the number of jobs with the same properties.

    Only ``services.counting.add_changes`` writes rows. They lack the changes of the last seconds: queries read the view
    of the same name with ``Current``, which has both, and sum up ``jobs``.
    """

    # No constraints: these are copies from the rows of jobs.
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    status = models.CharField(max_length=16)
    jobs = models.BigIntegerField()

    objects = OwnedQuerySet.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.jobs} {self.status}"


class CountByJobType(CountOfJobs):
    """Jobs of an owner in a group, by type, status and exit code."""

    job_type = models.CharField(max_length=255)
    exit_code = models.IntegerField(null=True)

    class Meta:
        abstract = True


class CountBySite(CountOfJobs):
    """Jobs of an owner in a group, by site of the last match and status."""

    site = models.ForeignKey(Site, models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False)

    class Meta:
        abstract = True


class CountBySubmission(CountOfJobs):
    """Jobs of a submission, by status and exit code."""

    submission = models.ForeignKey(Submission, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    exit_code = models.IntegerField(null=True)

    class Meta:
        abstract = True


class JobCount(CountByJobType):
    """Numbers of jobs by owner, group, type, status and exit code."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="job_count_is_one_row",
                fields=["owner", "group", "job_type", "status", "exit_code"],
                nulls_distinct=False,
            ),
        ]


class SiteJobCount(CountBySite):
    """Numbers of jobs by owner, group, site and status."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="site_job_count_is_one_row", fields=["owner", "group", "site", "status"], nulls_distinct=False
            ),
        ]
        # Leased jobs of a site, which a throttle counts without an advertisement.
        indexes = [models.Index(name="job_count_of_site", fields=["site", "status"])]


class SubmissionJobCount(CountBySubmission):
    """Numbers of jobs by submission, status and exit code; a submission is in one group of one owner."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="submission_job_count_is_one_row",
                fields=["submission", "owner", "group", "status", "exit_code"],
                nulls_distinct=False,
            ),
        ]


class CurrentJobCount(CountByJobType):
    """View of JobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentjobcount"


class CurrentSiteJobCount(CountBySite):
    """View of SiteJobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentsitejobcount"


class CurrentSubmissionJobCount(CountBySubmission):
    """View of SubmissionJobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentsubmissionjobcount"


class CurrentContentJobCount(CommonOfJobs, CountBySubmission):
    """View of CurrentSubmissionJobCount with what the jobs of the submission have in common."""

    class Meta:
        managed = False
        db_table = "jobs_currentcontentjobcount"


class JobCountChange(models.Model):
    """One row is a change of the numbers of jobs, written by triggers of the table of jobs and soon added to these.

    The table has no index: all rows are read at once.
    """

    submission_id = models.UUIDField()
    owner_id = models.BigIntegerField()
    group_id = models.BigIntegerField()
    vo_id = models.BigIntegerField()
    job_type = models.CharField(max_length=255)
    status_before = models.CharField(max_length=16, null=True, help_text="Null: the jobs are new.")  # noqa: DJ001
    site_before_id = models.BigIntegerField(null=True)
    exit_code_before = models.IntegerField(null=True)
    status_after = models.CharField(max_length=16, null=True, help_text="Null: the jobs are deleted.")  # noqa: DJ001
    site_after_id = models.BigIntegerField(null=True)
    exit_code_after = models.IntegerField(null=True)
    jobs = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.jobs} from {self.status_before} to {self.status_after}"


class MadeToday(models.Model):
    """One row is what a user has made on the day of the last submission, by which a day is bounded (ADR 86)."""

    owner = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="+")
    day = models.DateField(help_text="In UTC, by the database's clock.")
    jobs = models.BigIntegerField(help_text="Jobs submitted, in groups without the property PRODUCTION.")
    description_bytes = models.BigIntegerField(help_text="Size of their descriptions, and of those of edited jobs.")

    def __str__(self) -> str:
        return f"{self.jobs} jobs of user {self.owner_id} on {self.day}"
