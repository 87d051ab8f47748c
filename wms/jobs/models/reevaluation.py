"""The state of the re-evaluation of jobs by their input data."""

from django.db import models
from django.db.models import Q


class SiteLayout(models.Model):
    """The one row is a digest of the sites of storage elements at the last re-evaluation of jobs because of it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    digest = models.BinaryField(max_length=32, help_text="SHA-256 of the content.")

    class Meta:
        constraints = [models.CheckConstraint(name="site_layout_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return bytes(self.digest).hex()
