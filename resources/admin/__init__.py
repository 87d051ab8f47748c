"""Admin pages of storage, throttles and what sites have; those of sites, CEs, queues, platforms are in taskqueues."""

from resources.admin import administrators, platforms_and_storage, throttles

__all__ = ["administrators", "platforms_and_storage", "throttles"]
