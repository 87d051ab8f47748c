"""Reports of pilots after their registration, and their end."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from pilots.domain.pilot import MAY_END, PilotStatus
from pilots.models import Pilot
from resources.queries.nodes import contradiction
from resources.services.nodes import note_platform
from wms.kernel.db import transaction_required
from wms.kernel.errors import ForbiddenError
from wms.kernel.life import LifeEvent, tell
from wms.wire.protocol import PILOT_ENDED, PILOT_REVOKED

logger = logging.getLogger(__name__)

MAX_REASON_LENGTH = 255
#: Flaws kept per pilot; older ones are dropped.
MAX_FLAWS = 20
#: Longest platform name, in characters, that is accepted from a node.
MAX_PLATFORM = 128


class PilotRevokedError(ForbiddenError):
    """The pilot's credentials were revoked."""

    code = PILOT_REVOKED


class PilotEndedError(ForbiddenError):
    """The pilot has ended according to the server's records."""

    code = PILOT_ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheckItem:
    """One item of the pilot's check of its node."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """Result of the pilot's check of its node, made before its first job (PIL §2.1)."""

    host_name: str
    batch_id: str = ""
    ok: bool
    checks: Sequence[NodeCheckItem] = ()
    node: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFlaw:
    """Something that a node lacks and that only a job revealed.

    Args:
        name: subject: software, container or identity.
        detail: for people.
    """

    name: str
    detail: str = ""


@transaction.atomic(durable=True)
def record_node_check(result: NodeCheck, *, pilot_id: int, now: datetime) -> Pilot:
    """Store the result of the node check; a pilot on an unfit node fails.

    Raises:
        PilotRevokedError, PilotEndedError: nothing is stored.
    """
    living = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True, revoked_at__isnull=True)
    before = living.select_for_update().values_list("node", flat=True).first() or {}
    checks = [asdict(check) for check in (*result.checks, *_platform_check(result, pilot_id=pilot_id, now=now))]
    updated = living.update(
        host_name=result.host_name,
        last_seen_at=now,
        node={
            **result.node,
            "ok": result.ok,
            "batch_id": result.batch_id,
            "checks": checks,
            # Flaws that jobs reported stay valid after another check.
            **({"flaws": before["flaws"]} if "flaws" in before else {}),
        },
    )
    if not updated:
        _refuse_ended(_trusted(pilot_id))
    if not result.ok:
        end_pilot(pilot_id, status=PilotStatus.FAILED, reason=_why_unfit(result.checks), now=now)
    return _trusted(pilot_id)


def _platform_check(result: NodeCheck, *, pilot_id: int, now: datetime) -> Sequence[NodeCheckItem]:
    """Store the node's platform with its queue; return a failed check if it contradicts the queue's platforms.

    The pilot goes on: jobs that require no platform can run.
    """
    platform = result.node.get("platform")
    pilot = Pilot.objects.select_related("queue__ce__site").filter(pk=pilot_id).first()
    if pilot is None or pilot.queue is None or not isinstance(platform, str) or not 0 < len(platform) <= MAX_PLATFORM:
        return ()
    note_platform(pilot.queue, platform=platform, host_name=result.host_name, now=now)
    has_containers = bool(result.node.get("container_runtime_version"))
    why = contradiction(pilot.queue, platform, has_containers=has_containers)
    if why:
        logger.warning(
            "pilot.platform_contradiction: %s", why, extra={"pilot_id": pilot_id, "queue_id": pilot.queue.pk}
        )
    return (NodeCheckItem(name="platform", ok=False, detail=why),) if why else ()


@transaction.atomic(durable=True)
def record_flaw(flaw: NodeFlaw, *, pilot_id: int, now: datetime) -> Pilot:
    """Store a flaw of the pilot's node; the pilot goes on, because other jobs may not need what is missing.

    Raises:
        PilotRevokedError, PilotEndedError: nothing is stored.
    """
    living = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True, revoked_at__isnull=True)
    node = living.select_for_update().values_list("node", flat=True).first()
    if node is None:
        _refuse_ended(_trusted(pilot_id))
        node = {}
    flaws = [*node.get("flaws", []), {**asdict(flaw), "at": now.isoformat()}]
    living.update(node={**node, "flaws": flaws[-MAX_FLAWS:]}, last_seen_at=now)
    logger.warning("pilot.node_flaw", extra={"pilot_id": pilot_id, "flaw": flaw.name, "detail": flaw.detail})
    return _trusted(pilot_id)


@transaction.atomic(durable=True)
def leave(*, pilot_id: int, reason: str, failed: bool = False, now: datetime) -> Pilot:
    """End a pilot that reports that it leaves; a repeated report changes nothing.

    Args:
        pilot_id: of the pilot.
        reason: for people.
        failed: whether it could not work, for example because of another protocol version.
        now: the time of the end.

    Raises:
        PilotRevokedError: nothing changes.
    """
    _trusted(pilot_id)
    Pilot.objects.filter(pk=pilot_id).update(last_seen_at=now)
    status = PilotStatus.FAILED if failed else PilotStatus.DONE
    end_pilot(pilot_id, status=status, reason=reason, now=now)
    return _trusted(pilot_id)


@transaction_required
def end_pilot(pilot_id: int, *, status: PilotStatus, reason: str, now: datetime, died: bool = False) -> bool:
    """End the pilot unless it has ended already; return whether this call ended it.

    ``matching`` ends its leases: it looks for open leases of ended pilots.

    Args:
        pilot_id: of the pilot.
        status: one of pilots.domain.pilot.MAY_END.
        reason: for people; see ``as_reason``.
        now: the time of the end.
        died: whether it ended as if killed, though neither its batch system nor the server killed it.
    """
    if status not in MAY_END:
        raise ValueError(f"{status} is not the end of a pilot")
    ended = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True).update(
        status=status, status_reason=as_reason(reason), ended_at=now, died=died
    )
    if ended:
        tell(LifeEvent.PILOT_ENDED, pilot=pilot_id, status=status, reason=reason)
    return ended == 1


def as_reason(text: str) -> str:
    """Return a reason, which may be from another system, as it is stored: 255 characters that PostgreSQL takes."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return clean[:MAX_REASON_LENGTH]


def living_pilot(pilot_id: int) -> Pilot:
    """Return the pilot with its VO, group, owner and place, if it may still use its token.

    Raises:
        PilotRevokedError, PilotEndedError: it may not.
    """
    pilot = _trusted(pilot_id)
    _refuse_ended(pilot)
    return pilot


def _trusted(pilot_id: int) -> Pilot:
    pilot = Pilot.objects.select_related("vo", "group", "owner", "queue__ce__site").filter(pk=pilot_id).first()
    if pilot is None or pilot.revoked_at is not None:
        raise PilotRevokedError("The credentials of this pilot were revoked; leave.")
    return pilot


def _refuse_ended(pilot: Pilot) -> None:
    if pilot.ended_at is not None:
        raise PilotEndedError(f"This pilot has ended ({pilot.status}); leave.")


def _why_unfit(checks: Sequence[NodeCheckItem]) -> str:
    failed = [f"{check.name}: {check.detail}" if check.detail else check.name for check in checks if not check.ok]
    return f"The node is not fit: {'; '.join(failed) or 'the pilot did not say why'}"
