"""Encryption of secrets that have to be read again; of the others only a digest is kept."""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac


class UndecipherableError(Exception):
    """The text was not encrypted under this installation's secret key."""


def encrypt(plain: str) -> bytes:
    """Return *plain*, encrypted under a key derived from SECRET_KEY; each call gives another text."""
    return _ciphers().encrypt(plain.encode())


def decrypt(encrypted: bytes | memoryview) -> str:
    """Return what was encrypted, also under a key that has since moved to SECRET_KEY_FALLBACKS.

    Raises:
        UndecipherableError: another key, or not a text of ``encrypt``.
    """
    try:
        return _ciphers().decrypt(bytes(encrypted)).decode()
    except InvalidToken as error:
        raise UndecipherableError("encrypted under another WMS_SECRET_KEY") from error


def _ciphers() -> MultiFernet:
    return MultiFernet([Fernet(_key(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> bytes:
    return urlsafe_b64encode(
        salted_hmac("wms.kernel.secrets", "encryption", secret=secret, algorithm="sha256").digest()
    )
