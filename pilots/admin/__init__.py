"""Admin pages of pilots, of the health of computing elements and hosts, and of directors."""

from pilots.admin import health, pilots

__all__ = ["health", "pilots"]
