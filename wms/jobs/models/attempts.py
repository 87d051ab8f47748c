"""Data that attempts of jobs leave: last lines of output, and samples of usage (ADR 63)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from wms.jobs.domain.causes import KEY_LENGTH, LONGEST_LINE
from wms.jobs.domain.samples import Sample, samples_of
from wms.kernel.fields import CompressedTextField


class OutputTail(models.Model):
    """One row is the last lines of an attempt whose pilot has sent some; it stays when the job is rescheduled."""

    pk = models.CompositePrimaryKey("job_id", "attempt")
    # No constraint: written while the row of the job is locked, and removed with it. The primary key is the index.
    job = models.ForeignKey("Job", models.CASCADE, related_name="output_tails", db_index=False, db_constraint=False)
    attempt = models.SmallIntegerField(help_text="Number of times that the job had been rescheduled; the first is 0.")
    std_output = CompressedTextField(null=True, help_text="Last lines of standard output; null: none were sent.")
    std_error = CompressedTextField(null=True, help_text="Last lines of standard error; null: none were sent.")
    # Of an attempt whose payload failed, or whose output is lost (``domain.causes``).
    cause_line = models.CharField(
        max_length=LONGEST_LINE, blank=True, db_default="", help_text="The line of these that tells why it failed."
    )
    cause = models.CharField(
        max_length=KEY_LENGTH, blank=True, db_default="", help_text="Key of the kind of such lines; empty: unknown."
    )

    class Meta:
        indexes = (
            # Most attempts have none.
            models.Index(fields=["cause", "job"], condition=~models.Q(cause=""), name="output_tail_by_cause"),
        )

    def __str__(self) -> str:
        return f"output of job {self.job_id}, attempt {self.attempt}"


class UsageSamples(models.Model):
    """One row is the usage of the payload of an attempt over time, thinned out (``matching/sql/attempts.sql``)."""

    pk = models.CompositePrimaryKey("job_id", "attempt")
    # As for OutputTail.
    job = models.ForeignKey("Job", models.CASCADE, related_name="usage_samples", db_index=False, db_constraint=False)
    attempt = models.SmallIntegerField(help_text="Number of times that the job had been rescheduled; the first is 0.")
    step_s = models.IntegerField(
        help_text="Seconds since the start are divided into steps; each has one sample at most."
    )
    samples = ArrayField(
        models.SmallIntegerField(),
        help_text="Four numbers of each sample, as in ``domain.samples``, and room for later ones.",
    )

    def __str__(self) -> str:
        return f"usage of job {self.job_id}, attempt {self.attempt}"

    @property
    def taken(self) -> list[Sample]:
        """The samples, by time."""
        return samples_of(self.samples, step_s=self.step_s)
