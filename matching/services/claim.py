"""The claim: one waiting job becomes the lease of one pilot, in one transaction; its text is ``sql/claim.sql``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from secrets import randbits
from time import time_ns
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings

from taskqueues.domain.offer import SlotBound
from wms.kernel.fast.statements import query_directly
from wms.kernel.memo import RecentlyUsed

#: Seconds after which ordinary requests store the time of the pilot's last one …
SEEN_WITHIN_S: Final = 120.0
#: … or this fraction of the silence after which the pilot is lost, if that is less.
PART_OF_SILENCE: Final = 0.1


def seen_within_s() -> float:
    """Return the age in seconds from which on the time of a pilot's last request is stored again."""
    lost_s: float = settings.WMS_PILOT_LOST_S
    return min(SEEN_WITHIN_S, PART_OF_SILENCE * lost_s)


#: Random bits of an id.
RANDOM_BITS = 74
_BITS_OF_B = 62
_VERSION = 7 << 76
_VARIANT = 2 << 62


def lease_id(*, time_ms: int, chance: int) -> UUID:
    """Return a UUID of version 7 (RFC 9562), which begins with a time: ids of the same hour are neighbors in an index.

    After a checkpoint the log gets a whole page for the first entry of each page, so for nearly each random id.

    Args:
        time_ms: milliseconds since 1970.
        chance: random number of RANDOM_BITS bits.
    """
    a, b = divmod(chance, 1 << _BITS_OF_B)
    return UUID(int=time_ms << 80 | _VERSION | a << 64 | _VARIANT | b)


class ClaimOutcome(StrEnum):
    """Result of a claim."""

    LEASED = "leased"
    EMPTY_LEVEL = "empty_level"
    CONTENDED = "contended"
    HELD_BACK = "held_back"
    CLOSED = "closed"
    OUTDATED = "outdated"


class HeldFor(StrEnum):
    """Scope for which the jobs of a level are held back: all pilots, a queue, or a host."""

    ALL = "delay"
    QUEUE = "place"
    PILOT = "host"


class Claimed(NamedTuple):
    """The result of a claim, with the lease if one was made."""

    answer: str
    #: Closed: the reason code. Held back: the scope (``HeldFor``).
    reason: str | None
    #: The limit that is full.
    limit_id: int | None
    #: Jobs left at the level if they are few; None: ten or more, or unknown.
    remaining: int | None
    #: Held back: time from which the first of the jobs can be claimed.
    opens_at: datetime | None
    ordinal: int
    match_id: UUID
    expires_at: datetime
    job_id: int
    owner: str
    group_name: str
    #: As in the REST interface.
    description: Mapping[str, Any]
    input_sandboxes: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The pilot of a claim, its request, and its place."""

    pilot_id: int
    request_id: UUID
    #: None: unknown.
    site_id: int | None
    ce_id: int | None
    queue_id: int | None
    #: Name of the site, if it is known, and whether it has a throttle.
    site_name: str | None = None
    is_throttled: bool = False
    slot: SlotBound = field(default_factory=dict)


class SeenThrottle(NamedTuple):
    """The state of a site's throttle for which its expression was true."""

    version: int
    matched: int


#: Columns of ``wms_claimed``.
_FIELDS: Final = (
    *("answer", "reason", "limit_id", "remaining", "opens_at", "ordinal", "match_id", "expires_at"),
    *("job_id", "owner_id", "group_id", "job_name", "description", "input_sandboxes"),
)
#: Their types; only those of a lease are all there.
_ROW: Final = msgspec.json.Decoder(
    tuple[
        str,
        str | None,
        int | None,
        int | None,
        datetime | None,
        int | None,
        UUID | None,
        datetime | None,
        int | None,
        int | None,
        int | None,
        str | None,
        dict[str, object] | None,
        list[dict[str, object]] | None,
    ]
)
#: One JSON array, which costs less to read than fourteen columns.
_COLUMNS: Final = f"json_build_array({', '.join(_FIELDS)})::text"
_CLAIM: Final = (
    f"SELECT {_COLUMNS} FROM wms_claim("  # noqa: S608 - our own names
    "$1::bigint, $2::uuid, $3::smallint, $4::uuid, $5::bigint, $6::smallint, $7::float8, $8::boolean, $9::bigint,"
    " $10::bigint, $11::bigint, $12::text, $13::boolean, $14::integer, $15::pg_snapshot, $16::float8, $17::float8,"
    " $18::bigint, $19::integer, $20::boolean, $21::jsonb)"
)
_CLOSE: Final = f"SELECT {_COLUMNS} FROM wms_close_request($1::bigint, $2::uuid, $3::jsonb)"  # noqa: S608 - our own names


def claim(
    claimant: Claimant,
    *,
    ordinal: int,
    task_queue_id: int,
    user_priority: int,
    cpu_segment_s: int,
    searched: str,
    chance: float,
    may_wait: bool,
    seen: SeenThrottle | None = None,
    locks_throttle: bool = False,
) -> Claimed:
    """Lease one of the ten oldest jobs of a level to a pilot, or return why none was leased.

    Args:
        claimant: the pilot and its request.
        ordinal: number of the lease within its request.
        task_queue_id, user_priority: the level.
        cpu_segment_s: of the task queue.
        searched: the database snapshot (pg_snapshot) of the search, which has compared all that is configured.
        chance: selects one of the ten; uniform in [0, 1).
        may_wait: whether to wait for other claims that hold all jobs of the level.
        seen: state for which the site's expression accepted the job; None: no expression.
        locks_throttle: whether to lock the throttle although its state has changed since *seen*; inside a transaction
            the caller then holds that lock, and can evaluate the expression and claim again.
    """
    (claimed,) = _ask(
        "claim",
        _CLAIM,
        *(claimant.pilot_id, claimant.request_id, ordinal),
        lease_id(time_ms=time_ns() // 1_000_000, chance=randbits(RANDOM_BITS)),
        *(task_queue_id, user_priority, chance, may_wait),
        *(claimant.site_id, claimant.ce_id, claimant.queue_id, claimant.site_name, claimant.is_throttled),
        *(cpu_segment_s, searched),
        *(float(settings.WMS_LEASE_FIRST_S), seen_within_s()),
        *(seen or (None, None)),
        locks_throttle,
        msgspec.json.encode(claimant.slot).decode(),
    )
    return claimed


def close(claimant: Claimant, *, left: Mapping[str, int]) -> list[Claimed]:
    """End the request with the leases that it has, and return them in the order of the draws.

    Args:
        claimant: the pilot and its request.
        left: task queues left after each condition; stored with the pilot if the request got no job.
    """
    return _ask("close", _CLOSE, claimant.pilot_id, claimant.request_id, msgspec.json.encode(left).decode())


def _ask(name: str, statement: str, *parameters: object) -> list[Claimed]:
    rows = query_directly(name, statement, *(None if value is None else str(value) for value in parameters))
    return [_claimed(_ROW.decode(str(row))) for (row,) in rows]


def _claimed(row: Sequence[Any]) -> Claimed:
    *of_claim, owner_id, group_id, job_name, description, input_sandboxes = row
    if description is None:
        return Claimed._make((*of_claim, "", "", {}, ()))
    owner, group_name = _name("accounts_user", owner_id), _name("accounts_group", group_id)
    return Claimed._make((*of_claim, owner, group_name, {**description, "job_name": job_name}, input_sandboxes))


#: Statements for the names, which never change, of users and groups.
_NAMES: Final = {
    "accounts_user": "SELECT username FROM accounts_user WHERE id = $1::bigint",
    "accounts_group": "SELECT name FROM accounts_group WHERE id = $1::bigint",
}
_names: Final = RecentlyUsed[tuple[str, int], str](most=20_000, unused_s=3600)


def _name(table: str, pk: int) -> str:
    def read() -> str:
        ((name,),) = query_directly(table, _NAMES[table], str(pk))
        return str(name)

    return _names.recall((table, pk), read)
