"""Answers about task queues."""

from rest_framework import serializers

from taskqueues.models import TaskQueue


class TaskQueueOut(serializers.ModelSerializer[TaskQueue]):
    """One set of identical requirements with at least one job waiting; an empty list accepts anything."""

    owner = serializers.CharField(source="owner.username")
    group = serializers.CharField(source="group.name")
    vo = serializers.CharField(source="vo.name")
    jobs = serializers.SerializerMethodField(help_text="Number of waiting jobs in it.")

    class Meta:
        model = TaskQueue
        exclude = ("signature",)

    def get_jobs(self, task_queue: TaskQueue) -> int:
        """Return the number of jobs, counted for the whole page at once."""
        counts: dict[int, int] = self.context["jobs"]
        return counts.get(task_queue.pk, 0)
