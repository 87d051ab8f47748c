"""The claim: one waiting job becomes the lease of one pilot, in one transaction; its text is ``sql/claim.sql``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings
from psycopg.types.json import Jsonb

from matching.domain.slot_bound import SlotBound
from wms.kernel.fast.statements import ask_prepared


class ClaimOutcome(StrEnum):
    """Result of a claim."""

    LEASED = "leased"
    EMPTY_LEVEL = "empty_level"
    CONTENDED = "contended"
    HELD_BACK = "held_back"
    CLOSED = "closed"
    GONE = "gone"


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
    input_sandboxes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The pilot of a claim, its request, and its place."""

    pilot_id: int
    request_id: UUID
    #: None: unknown; then all places where the pilot may be are checked.
    site_id: int | None
    ce_id: int | None
    queue_id: int | None
    #: Name of the CE, or queue, whose identity is unknown; None: it may be any.
    ce_name: str | None = None
    queue_name: str | None = None
    slot: SlotBound = field(default_factory=dict)


class SeenThrottle(NamedTuple):
    """The state of a site's throttle for which its expression was true."""

    version: int
    matched: int


_CLAIM: Final = (
    "SELECT * FROM wms_claim("
    "%s, %s, %s::smallint, %s, %s::smallint, %s, %s, %s, %s, %s, %s, %s, %s::integer, %s, %s, %s, %s::jsonb)"
)
_CLOSE: Final = "SELECT * FROM wms_close_request(%s, %s, %s)"


def claim(
    claimant: Claimant,
    *,
    ordinal: int,
    task_queue_id: int,
    user_priority: int,
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
        chance: selects one of the ten; uniform in [0, 1).
        may_wait: whether to wait for other claims that hold all jobs of the level.
        seen: state for which the site's expression accepted the job; None: no expression.
        locks_throttle: whether to lock the throttle although its state has changed since *seen*; inside a transaction
            the caller then holds that lock, and can evaluate the expression and claim again.
    """
    (claimed,) = _ask(
        _CLAIM,
        claimant.pilot_id,
        claimant.request_id,
        ordinal,
        task_queue_id,
        user_priority,
        chance,
        may_wait,
        claimant.site_id,
        claimant.ce_id,
        claimant.queue_id,
        float(settings.WMS_LEASE_FIRST_S),
        *(seen or (None, None)),
        claimant.ce_name,
        claimant.queue_name,
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
    return _ask(_CLOSE, claimant.pilot_id, claimant.request_id, Jsonb(left))


def _ask(statement: str, *parameters: object) -> list[Claimed]:
    rows = ask_prepared(statement, *parameters)
    # NB: Django configures psycopg to leave JSON unparsed.
    decode = msgspec.json.decode
    return [Claimed(*row[:-2], *(None if text is None else decode(text) for text in row[-2:])) for row in rows]
