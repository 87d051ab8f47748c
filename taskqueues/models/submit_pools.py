"""RFC 7's submit pools."""

from django.db import models

from resources.models import Queue
from wms.accounts.models import VO


class SubmitPool(models.Model):
    """A submit pool: a distinct set of requirements of a VO's jobs, with the queues that satisfy it (RFC7)."""

    id = models.CharField(max_length=64, primary_key=True, help_text="SHA-256 of VO and canonical requirements.")
    vo = models.ForeignKey(VO, models.CASCADE, related_name="submit_pools", verbose_name="VO")
    requirements = models.JSONField(help_text="Canonical form.")
    queues: "models.ManyToManyField[Queue, models.Model]" = models.ManyToManyField(
        Queue, through="PoolQueue", related_name="submit_pools", blank=True
    )
    refreshed_at = models.DateTimeField()
    last_used_at = models.DateTimeField(help_text="Time at which a job that needs it was last queued.")

    def __str__(self) -> str:
        return self.id


class PoolQueue(models.Model):
    """Membership of a queue in a submit pool: the queue satisfies its requirements.

    NB: there are hundreds of thousands, and checks of foreign keys would take as long as the rest of a refresh. Whoever
    writes rows holds locks on the pool and the queue; triggers remove them with either (ADR 16).
    """

    pk = models.CompositePrimaryKey("submitpool", "queue")
    submitpool = models.ForeignKey(SubmitPool, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    queue = models.ForeignKey(Queue, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)

    class Meta:
        db_table = "taskqueues_submitpool_queues"
        indexes = [models.Index(name="pools_of_queue", fields=["queue"])]  # Serves pilots, and the trigger of queues.

    def __str__(self) -> str:
        return f"queue {self.queue_id} in {self.submitpool_id}"


class StaleSubmitPools(models.Model):
    """Submit pools of a VO that must be refreshed, because something that decides about their queues has changed.

    Rows are only added and removed, never updated, so that changes of resources do not wait.
    """

    vo = models.ForeignKey(VO, models.CASCADE, related_name="+", db_index=False)
    # No foreign key: the pool may have been removed before the refresh.
    pool = models.CharField(max_length=64, blank=True, help_text="Id of a new pool; empty: all of the VO.")
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "stale submit pools"

    def __str__(self) -> str:
        return f"submit pools of VO {self.vo_id}"
