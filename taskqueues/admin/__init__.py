"""Pages of what waits, and of what decides about it: VOs, groups and resources, whose change is told here (STYLE 5)."""

from taskqueues.admin import groups, limits, queues, resources, vos

__all__ = ["groups", "limits", "queues", "resources", "vos"]
