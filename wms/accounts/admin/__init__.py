"""Pages for users and tokens; those of VOs and groups are in taskqueues, which computes priorities again (STYLE 5)."""

from wms.accounts.admin import people, second_factors, security_log, tokens

__all__ = ["people", "second_factors", "security_log", "tokens"]
