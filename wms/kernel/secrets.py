"""Encryption of secrets that must be read again; of others only a digest is stored.

Each app that stores such secrets calls ``register_store`` when it is ready, so that `manage.py rotate_key` re-encrypts
them and `manage.py verify` names those that still need a previous key.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac


class UndecipherableError(Exception):
    """The text was not encrypted under this installation's secret key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """One encrypted secret of a row, which is locked if it is to be replaced."""

    #: For people: "credential of storage element CERN-DST".
    name: str
    encrypted: bytes
    #: Stores another ciphertext in its place.
    replace: Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsByKey:
    """Names of all stored secrets, by the key that decrypts them."""

    current: tuple[str, ...] = ()
    #: Need WMS_SECRET_KEY_FALLBACKS.
    previous: tuple[str, ...] = ()
    #: Decrypted by none of the keys.
    unreadable: tuple[str, ...] = ()


class UnreadableSecretsError(Exception):
    """Secrets cannot be re-encrypted, as no configured key decrypts them; nothing was changed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"No key reads {', '.join(names)}")
        self.names = names


class Store(Protocol):
    """A table with encrypted secrets."""

    def __call__(self, *, locked: bool) -> Iterator[StoredSecret]:
        """Yield all of its secrets; *locked*: their rows are locked until the end of the transaction."""


_STORES: Final[list[Store]] = []


def register_store(store: Store) -> None:
    """Register a table whose secrets are re-encrypted."""
    _STORES.append(store)


def encrypt(plain: str) -> bytes:
    """Return *plain*, encrypted under a key derived from SECRET_KEY; each call gives another ciphertext."""
    return _ciphers().encrypt(plain.encode())


def decrypt(encrypted: bytes | memoryview) -> str:
    """Return the plain text, also of a key that is now in SECRET_KEY_FALLBACKS.

    Raises:
        UndecipherableError: of another key, or not a ciphertext of ``encrypt``.
    """
    try:
        return _ciphers().decrypt(bytes(encrypted)).decode()
    except InvalidToken as error:
        raise UndecipherableError("encrypted under another WMS_SECRET_KEY") from error


def secrets_by_key() -> SecretsByKey:
    """Return the names of all stored secrets, by the key that each needs."""
    return _by_key([secret for store in _STORES for secret in store(locked=False)])


@transaction.atomic(durable=True)
def rotate() -> SecretsByKey:
    """Re-encrypt under SECRET_KEY every stored secret that needs a previous key, all or none.

    Returns:
        The names before the run: ``previous`` were re-encrypted. A second run finds none there.

    Raises:
        UnreadableSecretsError: some need a key that is not configured; nothing was changed.
    """
    secrets = [secret for store in _STORES for secret in store(locked=True)]
    by_key = _by_key(secrets)
    if by_key.unreadable:
        raise UnreadableSecretsError(by_key.unreadable)
    for secret in secrets:
        if not _is_under_current_key(secret):
            secret.replace(encrypt(decrypt(secret.encrypted)))
    return by_key


def _by_key(secrets: Iterable[StoredSecret]) -> SecretsByKey:
    names: dict[str, list[str]] = {"current": [], "previous": [], "unreadable": []}
    for secret in secrets:
        names[_key_of(secret)].append(secret.name)
    return SecretsByKey(**{key: tuple(sorted(of_key)) for key, of_key in names.items()})


def _key_of(secret: StoredSecret) -> str:
    if _is_under_current_key(secret):
        return "current"
    try:
        decrypt(secret.encrypted)
    except UndecipherableError:
        return "unreadable"
    return "previous"


def _is_under_current_key(secret: StoredSecret) -> bool:
    try:
        Fernet(_key(settings.SECRET_KEY)).decrypt(secret.encrypted)
    except InvalidToken:
        return False
    return True


def _ciphers() -> MultiFernet:
    return MultiFernet([Fernet(_key(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> bytes:
    return urlsafe_b64encode(
        salted_hmac("wms.kernel.secrets", "encryption", secret=secret, algorithm="sha256").digest()
    )
