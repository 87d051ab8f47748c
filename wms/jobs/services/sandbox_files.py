"""Files of sandboxes in the store: each content once, under its SHA-256; written and removed atomically."""

import logging
import os
import shutil
import stat
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages
from django.db import transaction

from wms.jobs.models import Sandbox
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import UnavailableError
from wms.kernel.private_files import DIRECTORY_MODE, close_to_others
from wms.kernel.trusted_paths import require_trusted
from wms.wire.executables import HEAD_BYTES

logger = logging.getLogger(__name__)

#: Directory of unfinished files; a killed process leaves one there.
INCOMING: Final = "incoming"
#: Retry-After in seconds; somebody must free disk space first.
_NO_ROOM_RETRY_AFTER_S: Final = 60
#: Contents whose first bytes a process keeps: many submissions name the same script.
_HEADS_KEPT: Final = 1000


class NoRoomError(UnavailableError):
    """The disk of the store is nearly full."""

    code = "no_room"


def store(content: BinaryIO, *, digest: str, size_bytes: int) -> None:
    """Store the content atomically: a file with its name is complete.

    Raises:
        NoRoomError: the disk would have less space left than WMS_SANDBOX_MIN_FREE_MB.
    """
    storage, name = _storage(), _stored_name(digest)
    if storage.exists(name) and storage.size(name) == size_bytes:
        return
    content.seek(0)
    if not isinstance(storage, FileSystemStorage):
        # Object stores create objects atomically.
        stored_as = storage.save(name, File(content))
        if stored_as != name:  # a simultaneous upload of the same content was faster
            storage.delete(stored_as)
        return
    _refuse_without_room(Path(storage.location), size_bytes=size_bytes)
    written = Path(storage.path(storage.save(f"{INCOMING}/{uuid4().hex}", File(content))))
    with written.open("rb") as file:
        os.fsync(file.fileno())  # else a power failure could leave the name without the content
    published = Path(storage.path(name))
    published.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    written.replace(published)


def _refuse_without_room(directory: Path, *, size_bytes: int) -> None:
    # The directory is created with its first file.
    there = next(each for each in (directory, *directory.parents) if each.exists())
    if shutil.disk_usage(there).free - size_bytes < settings.WMS_SANDBOX_MIN_FREE_MB * 1024 * 1024:
        logger.error("sandboxes.no_room", extra={"path": str(directory)})
        sentence = "The server has no room for sandboxes; tell its operator, and send it again later."
        raise NoRoomError(sentence, retry_after_s=_NO_ROOM_RETRY_AFTER_S)


def open_stored(digest: str) -> "File[bytes]":
    """Return the stored content, open for reading; the caller closes it."""
    return _storage().open(_stored_name(digest))


def require_readable_store() -> None:
    """Return if this account may look at the files.

    Raises:
        PermissionError: they are another account's.
    """
    storage = _storage()
    if isinstance(storage, FileSystemStorage):
        with suppress(FileNotFoundError):  # it is created with its first file
            os.listdir(storage.location)  # noqa: PTH208 - read, not used


def stored_size_bytes(digest: str) -> int | None:
    """Return the size of the stored content; None: it is a link, or something else than a file.

    Raises:
        FileNotFoundError: it is not stored.
        OSError: it cannot be read.
    """
    storage, name = _storage(), _stored_name(digest)
    if not isinstance(storage, FileSystemStorage):
        size_bytes: int = storage.size(name)
        return size_bytes
    path = Path(storage.path(name))
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        return None
    path.open("rb").close()
    return state.st_size


@lru_cache(maxsize=_HEADS_KEPT)
def head_of(digest: str) -> bytes | None:
    """Return the first HEAD_BYTES of the content, which never changes; None: it is not stored."""
    try:
        with open_stored(digest) as content:
            head: bytes = content.read(HEAD_BYTES)
            return head
    except FileNotFoundError:
        return None


def close_store() -> None:
    """Close the store of an earlier version to other accounts of this machine; called at the start of a server.

    Raises:
        UntrustedPathError: another account could put files into it.
    """
    storage = _storage()
    if not isinstance(storage, FileSystemStorage):
        return
    require_trusted(Path(storage.location))
    try:
        closed = close_to_others(Path(storage.location))
    except PermissionError as error:
        logger.warning("sandboxes.not_closed_to_other_accounts", extra={"path": error.filename})
    else:
        if closed:
            logger.warning("sandboxes.closed_to_other_accounts", extra={"path": storage.location})


@transaction_required
def hold(digest: str) -> None:
    """Wait until a removal of the content's file has ended, and prevent another until the end of the transaction."""
    lock(LockKey.SANDBOX_FILE, of=int(digest[:7], 16))


@transaction.atomic(durable=True)
def discard_unless_known(digest: str) -> None:
    """Remove the file of a content without a row.

    An upload of the same content that found the file checks for it again after inserting its row.
    """
    hold(digest)
    if not Sandbox.objects.filter(digest=digest).exists():
        _storage().delete(_stored_name(digest))


def remove_unfinished(*, before: datetime) -> None:
    """Remove unfinished files of killed processes."""
    storage = _storage()
    if not storage.exists(INCOMING):
        return
    for name in storage.listdir(INCOMING)[1]:
        path = f"{INCOMING}/{name}"
        try:
            if storage.get_modified_time(path) < before:
                storage.delete(path)
        except FileNotFoundError:  # it was finished and renamed
            continue


def _storage() -> Storage:
    return storages["sandboxes"]


def _stored_name(digest: str) -> str:
    return f"{digest[:2]}/{digest[2:]}"
