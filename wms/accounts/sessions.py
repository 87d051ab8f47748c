"""Sessions in the database, read by a prepared statement: every open page reads one every few seconds."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

from wms.accounts.sql import session_of


class SessionStore(db.SessionStore):
    """Django's sessions in the database."""

    def _get_session_from_db(self) -> Session | None:
        session = session_of(self.session_key, now=timezone.now()) if self.session_key else None
        if session is None:
            self._session_key = None
        return session
