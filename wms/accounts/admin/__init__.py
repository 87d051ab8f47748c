"""Admin pages of users and tokens; those of VOs and groups are in taskqueues, which recalculates priorities."""

from wms.accounts.admin import people, security_log

__all__ = ["people", "security_log"]
