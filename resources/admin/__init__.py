"""Pages of resources whose change makes nothing else necessary; those of sites, CEs and queues are in taskqueues."""

from resources.admin import platforms_and_storage, throttles

__all__ = ["platforms_and_storage", "throttles"]
