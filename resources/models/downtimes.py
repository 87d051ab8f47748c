"""The model of downtimes: times, planned or running, during which a place gives no jobs (ADR 108)."""

from collections.abc import Iterable

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from resources.domain.enums import DowntimeSource
from resources.models.places import ComputingElement, Queue, Site
from wms.accounts.models import User


class Downtime(models.Model):
    """One row is one downtime of a site, of one of its computing elements, or of one queue."""

    site = models.ForeignKey(Site, models.CASCADE, related_name="downtimes", db_index=False)
    ce = models.ForeignKey(
        ComputingElement,
        models.CASCADE,
        related_name="downtimes",
        null=True,
        blank=True,
        db_index=False,
        verbose_name="computing element",
        help_text="Empty: the whole site.",
    )
    queue = models.ForeignKey(
        Queue,
        models.CASCADE,
        related_name="downtimes",
        null=True,
        blank=True,
        db_index=False,
        help_text="Empty: the whole computing element, or site.",
    )
    begins_at = models.DateTimeField("begin", help_text="Before it, only jobs that would end by then start here.")
    ends_at = models.DateTimeField("end")
    reason = models.CharField(max_length=255, help_text="Users see it.")
    declared_by = models.ForeignKey(
        User, models.SET_NULL, null=True, blank=True, related_name="+", editable=False, db_index=False
    )
    declared_at = models.DateTimeField(db_default=Now(), editable=False)
    source = models.CharField(
        max_length=16,
        choices=[(source, source or "declared here") for source in DowntimeSource],
        default=DowntimeSource.HERE,
        db_default=DowntimeSource.HERE,
        blank=True,
        editable=False,
    )
    external_id = models.CharField(max_length=128, default="", db_default="", blank=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(name="downtime_begins_before_it_ends", condition=Q(begins_at__lt=F("ends_at"))),
            models.CheckConstraint(
                name="downtime_of_a_queue_names_its_ce", condition=Q(queue=None) | Q(ce__isnull=False)
            ),
            # An announcement may concern several places.
            models.UniqueConstraint(
                name="an_announced_downtime_is_there_once",
                fields=["source", "external_id", "site", "ce", "queue"],
                condition=~Q(source=""),
                nulls_distinct=False,
            ),
        ]
        indexes = [models.Index(name="downtime_of_site", fields=["site", "ends_at"])]

    def __str__(self) -> str:
        return f"downtime of {self.level} from {self.begins_at:%Y-%m-%d %H:%M %Z}"

    @property
    def level(self) -> Site | ComputingElement | Queue:
        """Return the site, computing element or queue that is down."""
        return self.queue or self.ce or self.site

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that its site serves."""
        return self.site.concerned_vo_ids()
