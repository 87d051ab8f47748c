"""The claim, one round trip to the database that is one transaction (DESIGN §4.4); its text is ``sql/claim.sql``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from psycopg.types.json import Jsonb

from wms.kernel.db import ask_prepared


class ClaimOutcome(StrEnum):
    """What a claim found."""

    LEASED = "leased"
    EMPTY_LEVEL = "empty_level"
    CONTENDED = "contended"
    HELD_BACK = "held_back"
    CLOSED = "closed"
    GONE = "gone"


class HeldFor(StrEnum):
    """For whom the jobs of a level are held back."""

    ALL = "delay"
    QUEUE = "place"
    PILOT = "host"


class Claimed(NamedTuple):
    """The answer of a claim; of a lease that was given, all that its pilot is told."""

    answer: str
    #: Why closed: what nothing is given to, or of. Held back: for whom (``HeldFor``).
    reason: str | None
    #: That is full.
    limit_id: int | None
    #: Jobs left at the level when they are few; None: ten or more, or not known.
    remaining: int | None
    #: Held back: when the first of the jobs may be had.
    opens_at: datetime | None
    ordinal: int
    match_id: UUID
    expires_at: datetime
    job_id: int
    owner: str
    group_name: str
    #: In the form of the REST contract.
    description: Mapping[str, Any]
    input_sandboxes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Which request of which pilot, and where the pilot runs."""

    pilot_id: int
    request_id: UUID
    #: None: not known; then every place where the pilot may be is looked at.
    site_id: int | None
    ce_id: int | None
    queue_id: int | None
    #: Of a CE, or a queue, that is not known, its name; None: it may be any.
    ce_name: str | None = None
    queue_name: str | None = None
    #: Processors, memory in MB, GPUs and disk in MB that the open leases of the pilot may use together; None: any.
    slot: tuple[int | None, ...] = ()


class SeenThrottle(NamedTuple):
    """For which state of a site's throttle its expression was found true."""

    version: int
    matched: int


_CLAIM: Final = (
    "SELECT * FROM wms_claim("
    "%s, %s, %s::smallint, %s, %s::smallint, %s, %s, %s, %s, %s, %s, %s, %s::integer, %s, %s, %s, %s::integer[])"
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
    """Lease to a pilot one of the ten oldest jobs of a level, or say why there is none.

    Args:
        claimant: for whom.
        ordinal: of the lease among those of its request.
        task_queue_id, user_priority: the level.
        chance: which of the ten; uniform in [0, 1).
        may_wait: for other claims that hold all jobs of the level.
        seen: of a site whose throttle is an expression.
        locks_throttle: whether to go on to the throttle's lock though the state has moved since *seen*; inside a
            transaction the caller then has that lock, and can evaluate the expression and claim again.
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
        list(claimant.slot),
    )
    return claimed


def close(claimant: Claimant, *, left: Mapping[str, int]) -> list[Claimed]:
    """End the request with what it has got, and return its leases in the order of the draws.

    Args:
        claimant: for whom.
        left: task queues left after each condition; kept with the pilot when it got nothing.
    """
    return _ask(_CLOSE, claimant.pilot_id, claimant.request_id, Jsonb(left))


def _ask(statement: str, *parameters: object) -> list[Claimed]:
    rows = ask_prepared(statement, *parameters)
    # NB: Django has psycopg leave JSON as it is.
    return [Claimed(*row[:-2], *(None if text is None else json.loads(text) for text in row[-2:])) for row in rows]
