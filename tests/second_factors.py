"""Second factors of users in tests."""

import base64
import secrets
import time

from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value

from wms.accounts.models import User


def make_app(user: User) -> str:
    """Give the user an authenticator app, and return its key."""
    secret = base64.b32encode(secrets.token_bytes(20)).decode()
    TOTP.activate(user, secret)
    return secret


def make_recovery_codes(user: User) -> list[str]:
    """Give the user recovery codes, and return them."""
    return list(RecoveryCodes.activate(user).generate_codes())


def code_of(secret: str, *, steps: int = 0) -> str:
    """Return the code that an app with this key shows now, or *steps* time steps later."""
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // app_settings.TOTP_PERIOD + steps)))


def wrong_code_of(secret: str) -> str:
    """Return a code that is wrong now and in the next minutes."""
    near = {code_of(secret, steps=steps) for steps in range(-5, 20)}
    return next(code for code in map(str, range(100_000, 1_000_000)) if code not in near)


def stored(user: User) -> str:
    """Return all that the database stores about the user's second factors, as text."""
    return str(list(Authenticator.objects.filter(user=user).values()))
