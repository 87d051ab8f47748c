"""Files of sandboxes in the store: each content once, under its SHA-256; written and removed as a whole."""

import logging
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import uuid4

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages
from django.db import transaction

from wms.jobs.models import Sandbox
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import UnavailableError
from wms.kernel.private_files import DIRECTORY_MODE, close_to_others

logger = logging.getLogger(__name__)

#: Where files are written before they have their names; a process that is killed leaves one there.
INCOMING: Final = "incoming"
#: Somebody has to make room first.
_NO_ROOM_RETRY_AFTER_S: Final = 60


class NoRoomError(UnavailableError):
    """The disk of the store is nearly full."""

    code = "no_room"


def store(content: BinaryIO, *, digest: str, size_bytes: int) -> None:
    """Put the content where readers find it, in one step: whoever sees the name sees all of it.

    Raises:
        NoRoomError: the disk would have less room left than WMS_SANDBOX_MIN_FREE_MB.
    """
    storage, name = _storage(), _stored_name(digest)
    if storage.exists(name) and storage.size(name) == size_bytes:
        return
    content.seek(0)
    if not isinstance(storage, FileSystemStorage):
        # An object store: an object appears as a whole or not at all.
        stored_as = storage.save(name, File(content))
        if stored_as != name:  # another upload of the same was faster
            storage.delete(stored_as)
        return
    _refuse_without_room(Path(storage.location), size_bytes=size_bytes)
    written = Path(storage.path(storage.save(f"{INCOMING}/{uuid4().hex}", File(content))))
    with written.open("rb") as file:
        os.fsync(file.fileno())  # or a power cut could leave the name and lose the content
    published = Path(storage.path(name))
    published.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    written.replace(published)


def _refuse_without_room(directory: Path, *, size_bytes: int) -> None:
    # The store is made by its first file.
    there = next(each for each in (directory, *directory.parents) if each.exists())
    if shutil.disk_usage(there).free - size_bytes < settings.WMS_SANDBOX_MIN_FREE_MB * 1024 * 1024:
        logger.error("sandboxes.no_room", extra={"path": str(directory)})
        sentence = "The server has no room for sandboxes; tell its operator, and send it again later."
        raise NoRoomError(sentence, retry_after_s=_NO_ROOM_RETRY_AFTER_S)


def open_stored(digest: str) -> "File[Any]":
    """Return the stored content, open for reading; the caller closes it."""
    return _storage().open(_stored_name(digest))


def close_store() -> None:
    """Close the store to other accounts of this machine, if an earlier version made it; for the start of a server."""
    storage = _storage()
    if not isinstance(storage, FileSystemStorage):
        return
    try:
        closed = close_to_others(Path(storage.location))
    except PermissionError as error:
        logger.warning("sandboxes.not_closed_to_other_accounts", extra={"path": error.filename})
    else:
        if closed:
            logger.warning("sandboxes.closed_to_other_accounts", extra={"path": storage.location})


@transaction_required
def hold(digest: str) -> None:
    """Wait while the content's file is being removed, and keep others from it until the end of the transaction."""
    lock(LockKey.SANDBOX_FILE, of=int(digest[:7], 16))


@transaction.atomic(durable=True)
def discard_unless_known(digest: str) -> None:
    """Remove the file of a content that has no row.

    An upload of the same content that stored nothing, because the file was there, looks again after its row is in.
    """
    hold(digest)
    if not Sandbox.objects.filter(digest=digest).exists():
        _storage().delete(_stored_name(digest))


def remove_unfinished(*, before: datetime) -> None:
    """Remove what processes that were killed had begun to write."""
    storage = _storage()
    if not storage.exists(INCOMING):
        return
    for name in storage.listdir(INCOMING)[1]:
        path = f"{INCOMING}/{name}"
        try:
            if storage.get_modified_time(path) < before:
                storage.delete(path)
        except FileNotFoundError:  # it has its name by now
            continue


def _storage() -> Storage:
    return storages["sandboxes"]


def _stored_name(digest: str) -> str:
    return f"{digest[:2]}/{digest[2:]}"
