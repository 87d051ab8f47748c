"""Descriptions of jobs, and those that users have saved."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.fields.json import KeyTransform

from wms.accounts.models import User

#: Of a stored description: it names a file that its jobs read.
NAMES_INPUT_DATA = Q(description__input_data__0__isnull=False)


class StoredDescription(models.Model):
    """One row is one description, shared by all jobs that have exactly this one, except for their names (ADR 57).

    No description changes: that of an edited job is another row. One that no ended job has any more is retired: new
    jobs with an equal one get another row, so that it can be deleted when no transaction may still use it (ADR 100).
    """

    description = models.JSONField(help_text="All fields but the job's name, in the form of the REST interface.")
    digest = models.GeneratedField(
        # Of the stored form, in which equal descriptions are equal texts.
        expression=Func(Func(F("description"), function="jsonb_send"), function="sha256"),
        output_field=models.BinaryField(max_length=32),
        db_persist=True,
        help_text="SHA-256 of the description.",
    )
    retired_at = models.DateTimeField(null=True, editable=False, help_text="Since then no new job gets it.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="equal_descriptions_are_stored_once", fields=["digest"], condition=Q(retired_at__isnull=True)
            ),
        ]
        indexes = [
            # Serves the removal of descriptions.
            models.Index(name="description_retired", fields=["retired_at"], condition=Q(retired_at__isnull=False)),
            # Descriptions that name a file whose replicas changed; most name no input data.
            GinIndex(
                KeyTransform("input_data", "description"), name="description_of_input_file", condition=NAMES_INPUT_DATA
            ),
        ]

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class SavedSyntax(models.TextChoices):
    """The language of a saved description; that of the portal's form is JSON, too."""

    FORM = "form", "Form"
    JDL = "jdl", "JDL"
    CFG = "cfg", "CFG"
    JSON = "json", "JSON"


class SavedDescription(models.Model):
    """One row is a description that a user saved under a name, as the user wrote it."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="saved_descriptions", db_index=False)
    name = models.CharField(max_length=64)
    syntax = models.CharField(max_length=4, choices=SavedSyntax)
    text = models.TextField()
    files = models.JSONField(default=list, help_text="[reference, name] of each sandbox that goes along.")
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="saved_description_has_a_name_of_its_own", fields=["owner", "name"]),
            models.CheckConstraint(
                name="saved_description_has_known_syntax", condition=Q(syntax__in=SavedSyntax.values)
            ),
        ]

    def __str__(self) -> str:
        return self.name
