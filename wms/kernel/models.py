"""The kernel's only table."""

from django.db import models


class Liveness(models.Model):
    """One row is one part of the system that reports regularly, and its last report, by the database's clock."""

    name = models.CharField(max_length=32, primary_key=True)
    reported_at = models.DateTimeField()
    runs = models.JSONField(
        default=dict, db_default={}, help_text="Last run of each periodic task that it executes, by task."
    )

    def __str__(self) -> str:
        return self.name
