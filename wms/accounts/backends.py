"""Authentication by user name and password."""

from django.contrib.auth.backends import ModelBackend

from wms.accounts.models import User
from wms.accounts.sql import user_with


class PasswordBackend(ModelBackend):
    """Django's user names and passwords, with the user of a session read by a prepared statement."""

    def get_user(self, user_id: int) -> User | None:
        """Return the user with this id; None if there is none, or it is suspended."""
        user = user_with(user_id)
        return user if self.user_can_authenticate(user) else None
