"""Changes of task queues and groups that indexes and priorities have not followed yet."""

from django.db import models
from django.db.models.functions import Now

from wms.accounts.models import Group

#: task_queue_id in the table of changes for a change of sites, queues, VOs or groups.
CONFIGURATION = 0


class XidField(models.BigIntegerField):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A transaction number that never wraps around (PostgreSQL's xid8)."""

    def db_type(self, connection: object) -> str:  # noqa: ARG002 - Django's signature
        """Return the column's type."""
        return "xid8"


class CurrentXid(models.Func):
    """The number of the transaction that writes the row."""

    function = "pg_current_xact_id"
    template = "%(function)s()"
    output_field = XidField()


class TaskQueueChange(models.Model):
    """One change of a task queue by a transaction, for the indexes of all processes (ADR 14).

    Rows are only added, and removed after every index has read them. Their order is that of the transactions' numbers
    and snapshots, never that of their ids: a transaction may commit after one that began later.
    """

    xid = XidField(db_default=CurrentXid(), editable=False)
    # No foreign key: the task queue may have been removed.
    task_queue_id = models.BigIntegerField()
    user_priority = models.PositiveSmallIntegerField(
        null=True, help_text="Level whose number of jobs changed; none: the task queue's row must be read."
    )
    jobs = models.IntegerField(default=0, help_text="Jobs added; negative: removed.")
    counted_in = models.TextField(
        blank=True, default="", db_default="", help_text="Snapshot in which the row's jobs_of_level was counted."
    )
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(name="task_queue_change_xid", fields=["xid"]),  # changes not read by an index
            # Serves the claim: changes since its search.
            models.Index(
                name="configuration_change_xid", fields=["xid"], condition=models.Q(task_queue_id=CONFIGURATION)
            ),
        ]

    def __str__(self) -> str:
        return f"change of task queue {self.task_queue_id}"


class ChangedGroup(models.Model):
    """A group whose priorities must be recalculated because its task queues changed.

    Rows are only added and removed, never updated, so that submissions of one group do not wait for each other.
    """

    group = models.ForeignKey(Group, models.CASCADE, related_name="+", db_index=False)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"group {self.group_id}"
