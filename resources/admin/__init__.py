"""Admin pages of platforms, storage, tokens and throttles; those of sites, CEs and queues are in taskqueues."""

from resources.admin import platforms_and_storage, throttles

__all__ = ["platforms_and_storage", "throttles"]
