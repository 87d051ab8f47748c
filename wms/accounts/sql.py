"""The SQL query of every user's request: the ORM takes four times as long to write it as the database to answer."""

from datetime import datetime
from typing import NamedTuple

from wms.accounts.domain import TokenScope
from wms.accounts.models import User

#: Valid tokens of users who are not suspended.
_BEARER = """
SELECT bearer.*, token.id AS token_id, token.scope AS token_scope, token.last_used_at AS token_last_used_at
  FROM accounts_apitoken AS token
  JOIN accounts_user AS bearer ON bearer.id = token.user_id
 WHERE token.digest = %s AND token.expires_at > %s AND token.revoked_at IS NULL AND bearer.is_active
"""


class Bearer(NamedTuple):
    """The user of a token, and the token's row."""

    user: User
    token_id: int
    scope: TokenScope
    last_used_at: datetime | None


def bearer_of(digest: bytes, *, now: datetime) -> Bearer | None:
    """Return the bearer of the token with this digest, or None if it is not valid."""
    for user in User.objects.raw(_BEARER, [digest, now]):
        row = vars(user)  # beside the columns of the user
        return Bearer(user, row["token_id"], TokenScope(row["token_scope"]), row["token_last_used_at"])
    return None
