"""What a pilot says of itself after its registration, and how it ends."""

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

logger = logging.getLogger(__name__)

MAX_REASON_LENGTH = 255
#: Of the flaws that jobs met on a node, the latest are kept.
MAX_FLAWS = 20
#: Characters of the platform that a node reports.
MAX_PLATFORM = 128


class PilotRevokedError(ForbiddenError):
    """The pilot's credentials were revoked."""

    code = "pilot_revoked"


class PilotEndedError(ForbiddenError):
    """The pilot has ended, as far as the server knows."""

    code = "pilot_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheckItem:
    """One thing that the pilot looked at on its node."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """What the pilot found before it had any job (PIL §2.1)."""

    host_name: str
    batch_id: str = ""
    ok: bool
    checks: Sequence[NodeCheckItem] = ()
    node: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFlaw:
    """Something that a job needed, that the node should have had, and that only this job showed to be missing.

    Args:
        name: what it is about: software, container, identity.
        detail: for people.
    """

    name: str
    detail: str = ""


@transaction.atomic(durable=True)
def record_node_check(found: NodeCheck, *, pilot_id: int, now: datetime) -> Pilot:
    """Keep what the check of the node found; a pilot on an unfit node has failed.

    Raises:
        PilotRevokedError, PilotEndedError: nothing is kept.
    """
    living = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True, revoked_at__isnull=True)
    before = living.select_for_update().values_list("node", flat=True).first() or {}
    checks = [asdict(check) for check in (*found.checks, *_platform_check(found, pilot_id=pilot_id, now=now))]
    kept = living.update(
        host_name=found.host_name,
        last_seen_at=now,
        node={
            **found.node,
            "ok": found.ok,
            "batch_id": found.batch_id,
            "checks": checks,
            # What its jobs met remains true when the node is looked at again.
            **({"flaws": before["flaws"]} if "flaws" in before else {}),
        },
    )
    if not kept:
        _refuse_ended(_trusted(pilot_id))
    if not found.ok:
        end_pilot(pilot_id, status=PilotStatus.FAILED, reason=_why_unfit(found.checks), now=now)
    return _trusted(pilot_id)


def _platform_check(found: NodeCheck, *, pilot_id: int, now: datetime) -> Sequence[NodeCheckItem]:
    """Note the node's platform with its queue; return a check of it if it contradicts what the queue says.

    The pilot goes on: jobs that ask for no platform may come.
    """
    platform = found.node.get("platform")
    pilot = Pilot.objects.select_related("queue__ce__site").filter(pk=pilot_id).first()
    if pilot is None or pilot.queue is None or not isinstance(platform, str) or not 0 < len(platform) <= MAX_PLATFORM:
        return ()
    note_platform(pilot.queue, platform=platform, host_name=found.host_name, now=now)
    has_containers = bool(found.node.get("container_runtime_version"))
    why = contradiction(pilot.queue, platform, has_containers=has_containers)
    if why:
        logger.warning(
            "pilot.platform_contradiction: %s", why, extra={"pilot_id": pilot_id, "queue_id": pilot.queue.pk}
        )
    return (NodeCheckItem(name="platform", ok=False, detail=why),) if why else ()


@transaction.atomic(durable=True)
def record_flaw(flaw: NodeFlaw, *, pilot_id: int, now: datetime) -> Pilot:
    """Keep what a job met on the pilot's node; the pilot goes on, for other jobs may not need it.

    Raises:
        PilotRevokedError, PilotEndedError: nothing is kept.
    """
    living = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True, revoked_at__isnull=True)
    node = living.select_for_update().values_list("node", flat=True).first()
    if node is None:
        _refuse_ended(_trusted(pilot_id))
        node = {}
    found = [*node.get("flaws", []), {**asdict(flaw), "at": now.isoformat()}]
    living.update(node={**node, "flaws": found[-MAX_FLAWS:]}, last_seen_at=now)
    logger.warning("pilot.node_flaw", extra={"pilot_id": pilot_id, "flaw": flaw.name, "detail": flaw.detail})
    return _trusted(pilot_id)


@transaction.atomic(durable=True)
def leave(*, pilot_id: int, reason: str, failed: bool = False, now: datetime) -> Pilot:
    """End a pilot that says it is leaving; said again, its answer having been lost, it changes nothing.

    Args:
        pilot_id: of the pilot.
        reason: for people.
        failed: whether it could not work, for example because it speaks another protocol than this server.
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
    """End the pilot, unless it has ended already; return whether it was this call that did.

    Its leases are ended by ``matching``, which looks for open leases of ended pilots.

    Args:
        pilot_id: of the pilot.
        status: one of pilots.domain.pilot.MAY_END.
        reason: for people; see ``as_reason``.
        now: the time of the end.
        died: whether it ended as if it was killed, and by nobody whom the server knows.
    """
    if status not in MAY_END:
        raise ValueError(f"{status} is not the end of a pilot")
    ended = Pilot.objects.filter(pk=pilot_id, ended_at__isnull=True).update(
        status=status, status_reason=as_reason(reason), ended_at=now, died=died
    )
    if ended:
        logger.info("pilot.ended", extra={"pilot_id": pilot_id, "status": status, "reason": reason})
    return ended == 1


def as_reason(text: str) -> str:
    """Return what is kept of a reason, which may be the words of a foreign system: 255 characters, and no NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")[:MAX_REASON_LENGTH]


def living_pilot(pilot_id: int) -> Pilot:
    """Return the pilot with its VO, group, owner and place, if its token still opens anything.

    Raises:
        PilotRevokedError, PilotEndedError: it does not.
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
