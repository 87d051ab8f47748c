"""Authentication by user name and password."""

from django.contrib.auth.backends import ModelBackend

from wms.accounts.models import User
from wms.accounts.sessions import SessionStore
from wms.accounts.sql import user_with
from wms.kernel.callers import current_request


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
