"""Admin pages of users and tokens; those of VOs and groups are in taskqueues, which recalculates priorities."""

from wms.accounts.admin import people, second_factors, security_log, tokens

__all__ = ["people", "second_factors", "security_log", "tokens"]
