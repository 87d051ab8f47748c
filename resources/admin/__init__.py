"""Pages of resources whose change makes nothing else necessary; those of sites, CEs and queues are in taskqueues."""

from resources.admin import things, throttles

__all__ = ["things", "throttles"]
