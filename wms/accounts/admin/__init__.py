"""Pages for VOs, users and tokens; a group's page is in taskqueues, which computes priorities again (STYLE 5)."""

from wms.accounts.admin import people, tokens

__all__ = ["people", "tokens"]
