"""What every request of a user asks: the ORM takes four times as long to write it as the database to answer."""

from datetime import datetime
from typing import NamedTuple

from wms.accounts.domain import TokenScope
from wms.accounts.models import User

#: Neither expired nor revoked, of a user who is not suspended.
_BEARER = """
SELECT bearer.*, token.id AS token_id, token.scope AS token_scope, token.last_used_at AS token_last_used_at
  FROM accounts_apitoken AS token
  JOIN accounts_user AS bearer ON bearer.id = token.user_id
 WHERE token.digest = %s AND token.expires_at > %s AND token.revoked_at IS NULL AND bearer.is_active
"""


class Bearer(NamedTuple):
    """Who comes with a token, and which one it is."""

    user: User
    token_id: int
    scope: TokenScope
    last_used_at: datetime | None


def bearer_of(digest: bytes, *, now: datetime) -> Bearer | None:
    """Return the bearer of the token with this digest, or None if it opens nothing."""
    for user in User.objects.raw(_BEARER, [digest, now]):
        row = vars(user)  # beside the columns of the user
        return Bearer(user, row["token_id"], TokenScope(row["token_scope"]), row["token_last_used_at"])
    return None
