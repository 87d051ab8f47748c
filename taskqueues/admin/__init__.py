"""Pages of what waits, and of what decides about it: groups and resources, whose change is announced here (STYLE 5)."""

from taskqueues.admin import groups, queues, resources

__all__ = ["groups", "queues", "resources"]
