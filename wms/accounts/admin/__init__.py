"""Pages for users and tokens; those of VOs and groups are in taskqueues, which computes priorities again (STYLE 5)."""

from wms.accounts.admin import people, security_log, tokens

__all__ = ["people", "security_log", "tokens"]
