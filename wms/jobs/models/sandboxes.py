"""Sandboxes, their uploads, and their use by jobs."""

from django.db import models
from django.utils import timezone

from wms.accounts.models import VO, User
from wms.jobs.models.jobs import Job


class Sandbox(models.Model):
    """One row is one stored content, a single file or an archive, named by its SHA-256."""

    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the content, in hexadecimal.")
    size_bytes = models.PositiveBigIntegerField()
    is_archive = models.BooleanField(
        help_text="Whether it is unpacked in the job's directory; a single file is stored there as it is."
    )
    created_at = models.DateTimeField()
    check_use_at = models.DateTimeField(default=timezone.now, db_index=True, help_text="Next check whether it is used.")

    def __str__(self) -> str:
        return f"sha256:{self.digest}"


class SandboxUpload(models.Model):
    """One row is the upload of a content by a user under a name, which lets the user name it in jobs."""

    sandbox = models.ForeignKey(Sandbox, models.CASCADE, related_name="uploads", db_index=False)
    owner = models.ForeignKey(User, models.CASCADE, related_name="sandbox_uploads")
    file_name = models.CharField(max_length=255)
    is_output = models.BooleanField(default=False, help_text="Of a job, stored by its pilot.")
    uploaded_at = models.DateTimeField()
    # No constraint: it only says where the bytes are counted, as in StoredBytes.
    vo = models.ForeignKey(
        VO,
        models.DO_NOTHING,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
        help_text="Of the job; of another upload, that of its owner's default group.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="a_user_uploads_a_content_under_a_name_once", fields=["sandbox", "owner", "file_name"]
            ),
        ]
        indexes = [
            # Serves the outputs of one job, which share its name.
            models.Index(name="output_of_job", fields=["file_name"], condition=models.Q(is_output=True)),
        ]

    def __str__(self) -> str:
        return self.file_name


class StoredBytes(models.Model):
    """One row is the size of what a user has stored in a VO, each upload counted; triggers of the uploads write it.

    A smaller content counts as a block of the disk (``sql/stored_bytes.sql``).
    """

    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False)
    input_bytes = models.BigIntegerField()
    output_bytes = models.BigIntegerField(help_text="Of outputs of jobs.")

    class Meta:
        verbose_name_plural = "stored bytes"
        constraints = [
            models.UniqueConstraint(
                name="stored_bytes_of_a_user_in_a_vo_are_one_row", fields=["owner", "vo"], nulls_distinct=False
            ),
        ]
        indexes = [models.Index(name="stored_bytes_of_vo", fields=["vo"])]  # each upload sums up those of its VO

    def __str__(self) -> str:
        return f"bytes of user {self.owner_id} in VO {self.vo_id}"


class InputSandbox(models.Model):
    """One row is one input sandbox of a job, with its file name for the payload."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="input_sandboxes", db_index=False)
    sandbox = models.ForeignKey(Sandbox, models.PROTECT, related_name="input_of")
    file_name = models.CharField(max_length=255)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_job_names_a_sandbox_once", fields=["job", "sandbox"]),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} of job {self.job_id}"
