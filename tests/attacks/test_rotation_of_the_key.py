"""Stored credentials stay readable by a leaked key until they are re-encrypted: `manage.py rotate_key`, `verify`."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from resources.models import StorageElement
from tests.factories import make_storage_element
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import SecurityEvent
from wms.kernel.secrets import UndecipherableError, decrypt

OLD_KEY = "z5y4x3w2v1u0t9s8r7q6p5o4n3m2l1k0j9i8h7g6f5e4d3c2b1a0"
NEW_KEY = "a0b1c2d3e4f5g6h7i8j9k0l1m2n3o4p5q6r7s8t9u0v1w2x3y4z5"

pytestmark = pytest.mark.django_db(transaction=True)


def run(command: str) -> str:
    out = StringIO()
    call_command(command, stdout=out)
    return out.getvalue()


def credentials() -> dict[str, bytes]:
    return {element.name: bytes(element.credential_encrypted) for element in StorageElement.objects.order_by("name")}


@pytest.fixture
def rotated(settings: Settings) -> Settings:
    """Store two credentials under the old key and an element without one; then set a new key."""
    settings.SECRET_KEY = OLD_KEY
    for name in ("CERN-DST", "RAL-DST"):
        make_storage_element(name=name, credential=f"secret of {name}")
    make_storage_element(name="OPEN")
    settings.SECRET_KEY = NEW_KEY
    settings.SECRET_KEY_FALLBACKS = [OLD_KEY]
    return settings


def test_verify_names_secrets_under_a_previous_key(rotated: Settings) -> None:
    said = run("verify")
    for name in ("CERN-DST", "RAL-DST"):
        assert f"The credential of storage element {name} needs a key of WMS_SECRET_KEY_FALLBACKS" in said
    assert "OPEN" not in said


def test_the_old_key_decrypts_nothing_after_a_rotation(rotated: Settings) -> None:
    assert run("rotate_key") == "2 secrets re-encrypted, 0 were under WMS_SECRET_KEY already.\n"
    assert SecurityEvent.objects.get(kind=SecurityEventKind.KEY_ROTATED).facts == {"encrypted_anew": 2}
    rotated.SECRET_KEY_FALLBACKS = []
    for name in ("CERN-DST", "RAL-DST"):
        assert decrypt(credentials()[name]) == f"secret of {name}"
    assert "FALLBACKS" not in run("verify")
    rotated.SECRET_KEY = OLD_KEY
    with pytest.raises(UndecipherableError):
        decrypt(credentials()["CERN-DST"])


def test_a_second_rotation_writes_nothing(rotated: Settings) -> None:
    run("rotate_key")
    before = credentials()
    assert run("rotate_key") == "0 secrets re-encrypted, 2 were under WMS_SECRET_KEY already.\n"
    assert credentials() == before


def test_an_undecipherable_secret_stops_the_rotation_and_is_named(rotated: Settings) -> None:
    rotated.SECRET_KEY = "lost" * 20
    make_storage_element(name="LOST", credential="lost")
    rotated.SECRET_KEY = NEW_KEY
    before = credentials()
    with pytest.raises(CommandError, match=r"(?s)Nothing was changed.*storage element LOST") as refusal:
        run("rotate_key")
    assert "CERN-DST" not in str(refusal.value)
    assert credentials() == before
    with pytest.raises(CommandError, match="1 violations of invariants"):
        run("verify")


def test_nothing_is_encrypted_under_a_weak_key(rotated: Settings) -> None:
    rotated.WMS_EMBEDDED = False
    rotated.SECRET_KEY = "short"
    before = credentials()
    with pytest.raises(CommandError, match="WMS_SECRET_KEY is too easy to guess"):
        run("rotate_key")
    assert credentials() == before


def test_a_weak_previous_key_does_not_stop_its_rotation(settings: Settings) -> None:
    settings.SECRET_KEY = "short"
    make_storage_element(name="CERN-DST", credential="secret")
    settings.WMS_EMBEDDED = False
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW_KEY, ["short"]
    assert run("rotate_key").startswith("1 secrets re-encrypted")
