"""The check that the files of sandboxes, inputs and outputs, are stored as their rows say; changes nothing."""

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from wms.jobs.models import Sandbox
from wms.jobs.services.sandbox_files import open_stored, require_readable_store, stored_size_bytes

#: Seconds after which an upload has stored a file that was removed as unused just before its row was inserted.
_LOOK_AGAIN_AFTER_S: Final = 0.5
_READ_AT_ONCE: Final = 1 << 20
_ROWS_AT_ONCE: Final = 2000


def wrong_files(*, with_contents: bool = False) -> Iterator[str]:
    """Yield a sentence for each sandbox whose file is missing, unreadable, of another size, or of another content.

    Beside uploads and removals: a file that seems wrong is looked at once more after all others, if its row is there.

    Raises:
        PermissionError: this account may not look at the files.
    """
    require_readable_store()
    suspects = [row for row in _rows() if _fault_of(*row, with_contents=with_contents)]
    if suspects:
        time.sleep(_LOOK_AGAIN_AFTER_S)
    for digest, size_bytes in suspects:
        fault = _fault_of(digest, size_bytes, with_contents=with_contents)
        if fault and Sandbox.objects.filter(digest=digest).exists():
            yield f"The file of sandbox sha256:{digest} {fault}"


def _rows() -> Iterator[tuple[str, int]]:
    # In parts: a cursor would be left open by an error, and hold back the vacuum of a live system.
    rows = Sandbox.objects.order_by("pk").values_list("pk", "digest", "size_bytes")
    last = 0
    while part := list(rows.filter(pk__gt=last)[:_ROWS_AT_ONCE]):
        yield from ((digest, size_bytes) for _, digest, size_bytes in part)
        last = part[-1][0]


def _fault_of(digest: str, size_bytes: int, *, with_contents: bool) -> str:
    try:
        stored_bytes = stored_size_bytes(digest)
        if stored_bytes is None:
            return "is not an ordinary file"
        if stored_bytes != size_bytes:
            return f"has {stored_bytes} bytes, not {size_bytes}"
        if with_contents and _digest_of_stored(digest) != digest:
            return "has another content"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _digest_of_stored(digest: str) -> str:
    content_digest = sha256()
    with open_stored(digest) as file:
        while part := file.read(_READ_AT_ONCE):
            content_digest.update(part)
    return content_digest.hexdigest()
