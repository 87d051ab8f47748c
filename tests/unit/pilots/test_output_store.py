"""Sentences of a minor status on output that got other names."""

from pilots.agent.job.output_store import renamed
from pilots.agent.server.job_data import GrantedName


def granted(lfn: str, stored_as: str) -> GrantedName:
    reason = "a file of this name is registered"
    return GrantedName(lfn, stored_as, reason, upload="", replaces=False, earlier=(), leftovers=())


def test_files_with_other_names_are_told_with_the_reason() -> None:
    names = [granted("/v/a", "/v/a"), granted("/v/b", "/v/7/b"), granted("/v/c", "/v/7/c")]
    assert renamed(names[:1], room=100) == ""
    assert renamed(names, room=200) == (
        "/v/b: a file of this name is registered, so it is stored as LFN:/v/7/b, and 1 more in that directory"
    )


def test_a_place_that_is_long_is_whole() -> None:
    place = f"/v/{'x' * 150}/b"
    assert renamed([granted(f"/v/{'y' * 90}", place)], room=200) == f"stored as LFN:{place}"
