"""The one table of the kernel."""

from django.db import models


class Pulse(models.Model):
    """One row is one part of the system that shows that it lives, and when it last did, by the database's clock."""

    name = models.CharField(max_length=32, primary_key=True)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
