"""Log-in by password; and sessions, read with their users, as every open page reads both every few seconds."""

from datetime import datetime
from typing import Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db import transaction

from wms.accounts.models import User, UserSession
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

    def get_expiry_date(self, **known: object) -> datetime:
        """Return the end of the session by the database's clock, with which it is compared."""
        return super().get_expiry_date(**{"modification": current_time(), **known})

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's signature
        """Store the session; one in which a user has logged in ends those beyond WMS_MAX_SESSIONS_PER_USER."""
        super().save(must_create)
        user_id = None if must_create else self.get(SESSION_KEY)
        if self.session_key and user_id is not None:
            _note_session(self.session_key, user_id=int(str(user_id)), now=current_time())

    def _get_session_from_db(self) -> Session | None:
        key = self.session_key
        visit = visit_of(key, user_id=_users.get(key), now=current_time()) if key else None
        if visit is None:
            self._session_key = None
            return None
        self.user_read = visit.user
        return visit.session


@transaction.atomic
def _note_session(session_key: str, *, user_id: int, now: datetime) -> None:
    """Note that a user is logged in by a session, which is stored; beyond the bound, those begun first end.

    The oldest end, instead of a refused log-in, because a user without a session could end none.
    """
    session = UserSession(session_id=session_key, user_id=user_id, begun_at=now)
    if UserSession.objects.filter(pk=session_key, user=user_id).exists():
        return
    # Locked, so that log-ins at once are counted one after another. No row: the user was deleted meanwhile.
    if not User.objects.select_for_update(no_key=True).filter(pk=user_id).exists():
        return
    UserSession.objects.bulk_create([session], ignore_conflicts=True)
    if most := settings.WMS_MAX_SESSIONS_PER_USER:
        newest_first = UserSession.objects.filter(user=user_id).order_by("-begun_at", "-pk")
        Session.objects.filter(pk__in=list(newest_first.values_list("pk", flat=True)[most:])).delete()


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
