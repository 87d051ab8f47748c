"""Log-in by password; and sessions, read with their users, as every open page reads both every few seconds."""

from typing import Final

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session

from wms.accounts.models import User
from wms.accounts.sql import user_with, visit_of
from wms.kernel.callers import current_request
from wms.kernel.clock import current_time

#: {key of a session: id of the user for which it was opened}: what a session holds is known only after it was read.
_users: Final[dict[str, int]] = {}
#: Entries; all are dropped when there are more.
_MOST_USERS: Final = 10_000


class SessionStore(db.SessionStore):
    """Django's sessions in the database, read by a prepared statement, together with the user if this process knows it.

    Attributes:
        user_read: the user that was read with the session, if any. It need not be the session's.
    """

    user_read: User | None = None

    def load(self) -> dict[str, object]:
        """Return what the session holds; of one that has expired or does not exist, nothing."""
        held: dict[str, object] = super().load()
        if self.session_key and SESSION_KEY in held:
            if len(_users) >= _MOST_USERS:
                _users.clear()
            _users[self.session_key] = int(str(held[SESSION_KEY]))
        return held

    def _get_session_from_db(self) -> Session | None:
        key = self.session_key
        visit = visit_of(key, user_id=_users.get(key), now=current_time()) if key else None
        if visit is None:
            self._session_key = None
            return None
        self.user_read = visit.user
        return visit.session


class PasswordBackend(ModelBackend):
    """Django's user names and passwords, with the user of a session read by a prepared statement."""

    def get_user(self, user_id: int) -> User | None:
        """Return the user with this id; None if there is none, or it is suspended."""
        user = _read_with_session(user_id) or user_with(user_id)
        return user if self.user_can_authenticate(user) else None


def _read_with_session(user_id: int) -> User | None:
    """Return the user if the session of the current request has just been read with it; once."""
    session = getattr(current_request.get(), "session", None)
    if not isinstance(session, SessionStore) or session.user_read is None or session.user_read.pk != user_id:
        return None
    user, session.user_read = session.user_read, None
    return user
