"""Downtimes as people and programs write them: declared, ended, imported from GOCDB, and removed (ADR 108)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from resources.domain.enums import DowntimeSource
from resources.domain.gocdb import Announced, Announcements
from resources.models import ComputingElement, Downtime, Queue, Site
from resources.queries.places import ids_of
from resources.services.states import MAX_REASON_LENGTH, full_name
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import NotFoundError, RejectedError
from wms.kernel.names import change_in_words, is_one_line

#: Age of ended downtimes that are removed.
KEPT: Final = timedelta(days=90)
#: Longest time from now to an end.
LONGEST: Final = timedelta(days=3650)
#: Parameter of a site: its name in GOCDB, if it has another one here.
GOCDB_NAME: Final = "gocdb_name"
_FIELDS: Final = ("begins_at", "ends_at", "reason")
Level: TypeAlias = Site | ComputingElement | Queue


class DowntimeError(RejectedError):
    """The downtime is not possible, or not to be changed here."""

    code = "bad_downtime"


def mistakes_in(*, begins_at: datetime, ends_at: datetime, reason: str, now: datetime) -> Mapping[str, str]:
    """Return {field: sentence} for what is wrong with a downtime before it is stored."""
    problems = {}
    if ends_at <= begins_at:
        problems["ends_at"] = "The end must be after the begin; correct one of them."
    elif ends_at <= now:
        problems["ends_at"] = "This time is past; give a future end."
    elif ends_at - now > LONGEST:
        problems["ends_at"] = "This is more than ten years from now; give an earlier time."
    if not reason.strip():
        problems["reason"] = "Give the reason; users see it."
    elif len(reason) > MAX_REASON_LENGTH or not is_one_line(reason):
        problems["reason"] = f"Use one line of at most {MAX_REASON_LENGTH} characters."
    return problems


@transaction_required
def declare(
    level: Level, *, begins_at: datetime, ends_at: datetime, reason: str, by: User, now: datetime
) -> tuple[Downtime, bool]:
    """Store a downtime of a place; return it, and whether it is new: an equal one is not stored again.

    Raises:
        DowntimeError: times or reason are not possible.
    """
    reason = reason.strip()
    _require_possible(mistakes_in(begins_at=begins_at, ends_at=ends_at, reason=reason, now=now))
    lock(LockKey.SET_DOWNTIMES)
    values: dict[str, Any] = dict(zip(("site_id", "ce_id", "queue_id"), ids_of(level), strict=True))
    values |= {"begins_at": begins_at, "ends_at": ends_at, "reason": reason, "source": DowntimeSource.HERE}
    same = Downtime.objects.filter(**values).first()
    if same is not None:
        return same, False
    downtime = Downtime.objects.create(**values, declared_by=by, declared_at=now)
    _record(downtime, before=None, by=by)
    return downtime, True


@transaction_required
def change(downtime: Downtime, *, begins_at: datetime, ends_at: datetime, reason: str, by: User, now: datetime) -> None:
    """Store other times, or another reason, of a downtime, which is updated too; its place stays.

    Raises:
        DowntimeError: they are not possible, or it is not declared here.
        NotFoundError: it has been withdrawn.
    """
    _require_declared_here(downtime)
    reason = reason.strip()
    _require_possible(mistakes_in(begins_at=begins_at, ends_at=ends_at, reason=reason, now=now))
    downtime.begins_at, downtime.ends_at, downtime.reason = begins_at, ends_at, reason
    _store(downtime, by=by)


@transaction_required
def end(downtime: Downtime, *, by: User, now: datetime) -> None:
    """End a downtime: one that runs ends now, and one that has not begun is removed; one that has ended stays.

    Raises:
        DowntimeError: it is announced elsewhere, and has not begun.
        NotFoundError: it has been withdrawn.
    """
    if downtime.ends_at <= now:
        return
    if downtime.begins_at >= now:
        _require_declared_here(downtime)
        _record(downtime, before=downtime, by=by, is_removed=True)
        downtime.delete()
        return
    downtime.ends_at, downtime.declared_by = now, by
    _store(downtime, by=by)


def remove_old(*, now: datetime) -> int:
    """Remove the downtimes that ended long ago; return their number."""
    old = Downtime.objects.filter(ends_at__lt=now - KEPT)
    # A statement that removes nothing would still make every index read the configuration anew.
    return old.delete()[0] if old.exists() else 0


def _require_possible(problems: Mapping[str, str]) -> None:
    if problems:
        raise DowntimeError(" ".join(problems.values()), errors={name: [text] for name, text in problems.items()})


def _require_declared_here(downtime: Downtime) -> None:
    if downtime.source != DowntimeSource.HERE:
        raise DowntimeError("This downtime is announced in GOCDB; change it there.")


def _store(downtime: Downtime, *, by: User | str) -> bool:
    """Store the changed fields of a downtime; return whether there are any."""
    before = Downtime.objects.select_for_update(of=("self",), no_key=True).filter(pk=downtime.pk).first()
    if before is None:
        raise NotFoundError("This downtime has been withdrawn.")
    if all(getattr(before, name) == getattr(downtime, name) for name in _FIELDS):
        return False
    downtime.save(update_fields=[*_FIELDS, "declared_by"])
    _record(downtime, before=before, by=by)
    return True


def _record(downtime: Downtime, *, before: Downtime | None, by: User | str, is_removed: bool = False) -> None:
    old = "" if before is None else in_words(before)
    change_of = f"{old} removed" if is_removed else change_in_words(old, in_words(downtime))
    record(
        SecurityEventKind.RESOURCE_STATE_CHANGED,
        actor=by,
        target=full_name(downtime.level),
        row=downtime.site,
        changes={f"downtime of {full_name(downtime.level)}": change_of},
    )


def in_words(downtime: Downtime) -> str:
    """Return times and reason of a downtime."""
    return f"{downtime.begins_at:%Y-%m-%d %H:%M} to {downtime.ends_at:%Y-%m-%d %H:%M %Z} ({downtime.reason})"


# ---- GOCDB -----------------------------------------------------------------------------------------------------------

_Key: TypeAlias = tuple[str, int, int | None]
#: The actor in the history of what the periodic task imports.
IMPORT: Final = "GOCDB import"


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """The result of an import, in numbers of downtimes."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    #: Announcements that close nothing here: warnings, services that are not for jobs, sites that are not here.
    warnings: int = 0
    other_services: int = 0
    other_sites: int = 0
    ended: int = 0
    #: Announcements that could not be read, or whose host is no computing element here, in words.
    unreadable: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)


@transaction_required
def import_announced(announcements: Announcements, *, by: User | str, now: datetime) -> ImportResult:
    """Make the downtimes from GOCDB those of *announcements*.

    A downtime whose announcement has changed follows it; one that is announced no longer, and has not begun, is
    removed. What people declared, or ended, here is not touched.
    """
    lock(LockKey.SET_DOWNTIMES)
    result = ImportResult(unreadable=list(announcements.unreadable))
    rows = Downtime.objects.filter(source=DowntimeSource.GOCDB).select_related("site", "ce__site", "queue")
    stored: dict[_Key, Downtime] = {(row.external_id, row.site_id, row.ce_id): row for row in rows}
    announced = {key: each for each, key in _placed(announcements.downtimes, result, now=now)}
    for key, each in announced.items():
        _bring_in(key, each, stored.get(key), result, by=by, now=now)
    for key, row in stored.items():
        if key not in announced and key[0] not in announcements.unreadable_ids and row.begins_at > now:
            _record(row, before=row, by=by, is_removed=True)
            row.delete()
            result.removed += 1
    return result


def _bring_in(
    key: _Key, announced: Announced, row: Downtime | None, result: ImportResult, *, by: User | str, now: datetime
) -> None:
    values = {"begins_at": announced.begins_at, "ends_at": announced.ends_at, "reason": announced.reason}
    if row is None:
        external_id, site_id, ce_id = key
        created = Downtime.objects.create(
            site_id=site_id,
            ce_id=ce_id,
            source=DowntimeSource.GOCDB,
            external_id=external_id,
            declared_at=now,
            **values,
        )
        _record(created, before=None, by=by)
        result.added += 1
        return
    is_ended_here = row.declared_by_id is not None
    if not is_ended_here:
        for name, value in values.items():
            setattr(row, name, value)
    if is_ended_here or not _store(row, by=by):
        result.unchanged += 1
    else:
        result.changed += 1


def _placed(announced: Iterable[Announced], result: ImportResult, *, now: datetime) -> Iterator[tuple[Announced, _Key]]:
    """Yield each announcement that closes a place here, with the key of each of its places; count the others."""
    sites = _sites_by_gocdb_name()
    ces_by_host = _ces_by_host(sites.values())
    for each in announced:
        site_id = sites.get(each.site.casefold())
        if not each.is_outage:
            result.warnings += 1
        elif each.ends_at <= now:
            result.ended += 1
        elif site_id is None:
            result.other_sites += 1
        elif not each.may_run_jobs:
            result.other_services += 1
        elif not each.host:
            yield each, (each.external_id, site_id, None)
        elif ce_ids := ces_by_host.get((site_id, each.host.casefold())):
            for ce_id in sorted(ce_ids):
                yield each, (each.external_id, site_id, ce_id)
        else:
            result.unplaced.append(f"{each.host} at {each.site}")


def _sites_by_gocdb_name() -> Mapping[str, int]:
    sites: dict[str, int] = {}
    for pk, name, parameters in Site.objects.order_by("name").values_list("pk", "name", "parameters"):
        sites.setdefault(str(parameters.get(GOCDB_NAME) or name).casefold(), pk)
    return sites


def _ces_by_host(site_ids: Collection[int]) -> Mapping[tuple[int, str], set[int]]:
    """Return {(site, host): its computing elements}, by their names and the hosts of their options."""
    hosts: dict[tuple[int, str], set[int]] = {}
    ces = ComputingElement.objects.filter(site__in=site_ids)
    for pk, site_id, name, host in ces.values_list("pk", "site", "name", "options__host"):
        for known in (name, host):
            if isinstance(known, str):
                hosts.setdefault((site_id, known.casefold()), set()).add(pk)
    return hosts
