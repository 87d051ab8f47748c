"""Pages for pilots, for what the server learns of nodes and computing elements, and for directors."""

from pilots.admin import health, pilots

__all__ = ["health", "pilots"]
