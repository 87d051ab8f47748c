"""Admin pages of task queues, and of VOs, groups and resources, whose changes affect task queues."""

from taskqueues.admin import groups, limits, queues, resources, vos

__all__ = ["groups", "limits", "queues", "resources", "vos"]
