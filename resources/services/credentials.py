"""Credentials of storage elements, for re-encryption by `manage.py rotate_key`."""

from collections.abc import Iterator
from functools import partial

from resources.models import StorageElement
from wms.kernel.secrets import StoredSecret


def stored_credentials(*, locked: bool) -> Iterator[StoredSecret]:
    """Yield the credentials of all storage elements with one."""
    elements = StorageElement.objects.exclude(credential_encrypted=b"").order_by("pk")
    for element in elements.select_for_update() if locked else elements:
        yield StoredSecret(
            name=f"credential of storage element {element.name}",
            encrypted=bytes(element.credential_encrypted),
            replace=partial(_replace, element.pk),
        )


def _replace(element_id: int, encrypted: bytes) -> None:
    StorageElement.objects.filter(pk=element_id).update(credential_encrypted=encrypted)
