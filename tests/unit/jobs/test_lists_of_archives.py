"""Lists of the files of archives that a process keeps."""

import tracemalloc
from functools import partial

from wms.jobs.services.sandbox_contents import MOST_LISTED, Contents, StoredFile, _lists


def test_long_lists_of_many_archives_take_a_bounded_amount_of_memory() -> None:
    def listed(archive: int) -> Contents:
        names = (f"{archive}/{'x' * 200}/{number}" for number in range(MOST_LISTED))
        files = tuple(StoredFile(name=name, size_bytes=10**6, position=0, link_target="") for name in names)
        return Contents(files=files, count=len(files))

    _lists.clear()
    tracemalloc.start()
    try:
        for archive in range(64):
            assert _lists.recall(str(archive), partial(listed, archive)).count == MOST_LISTED
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        _lists.clear()
    # All of them would take 20 MB.
    assert taken < 9_000_000
