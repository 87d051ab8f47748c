"""Jobs that were submitted in the place of failed ones."""

from django.db import models


class JobRetry(models.Model):
    """One row is a job that retries another one, with changes; the other one stays as it ended.

    The row goes with the newer job; the older one may be gone before.
    """

    # No constraint: written with the row of the job, and removed with it.
    job = models.OneToOneField(
        "Job", models.CASCADE, primary_key=True, related_name="retry_of", db_constraint=False, help_text="The new job."
    )
    predecessor_id = models.BigIntegerField(unique=True, help_text="Id of the job in whose place it is.")

    def __str__(self) -> str:
        return f"job {self.job_id}, retrying job {self.predecessor_id}"
