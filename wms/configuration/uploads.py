"""The configuration as a file over HTTP: the part that a user changes, compared and applied (ADR 110)."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from django.db import transaction

from taskqueues.services import submit_pools
from taskqueues.services.limits import lock_limits, mistakes_in
from wms.accounts.models import User
from wms.configuration.configure import changes_in, end_payloads_of_plan, write
from wms.configuration.consequences import Consequences
from wms.configuration.export import content_of, export_part
from wms.configuration.plan import Difference, Plan, StoredConfiguration, limit_shown
from wms.configuration.problems import ConfigurationError, Remark
from wms.configuration.reach import FileReach
from wms.configuration.reading import Reading
from wms.configuration.recording import record_changes, record_removals
from wms.configuration.sections import AnyChange, AnySection
from wms.kernel.consequences import Consequence, require_confirmed
from wms.kernel.db import LockKey, lock
from wms.kernel.errors import ConflictError, ForbiddenError

#: Lists of which a name that is left out takes a right from a person: by noun and key, in words.
_TAKEN: Final = {
    ("user", "groups"): "{row} leaves the group {name}",
    ("user", "dns"): "{row} loses the certificate {name}",
    ("vo", "managers"): "{row} loses the manager {name}",
}


class OtherVersionError(ConflictError):
    """The configuration, or the file, is not the one that was compared."""

    code = "configuration_changed"


class DeletionsNotConfirmedError(ConflictError):
    """A file deletes, and that is not confirmed."""

    code = "deletions_not_confirmed"


class OldLogInError(ForbiddenError):
    """A file changes rights of people, and the last log-in of its author is too old."""

    code = "fresh_log_in_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileComparison:
    """What a file changes, applied or only compared."""

    #: Of the file and of the configuration that it was compared with.
    version: str
    differences: tuple[Difference, ...]
    #: What is deleted, and who loses a right: a sentence each, without full stop.
    deletions: tuple[str, ...]
    #: What stops jobs.
    consequences: tuple[Consequence, ...]
    warnings: tuple[Remark, ...]
    #: Whether rights of people change, which needs a fresh log-in.
    changes_people: bool


def part_of(user: User) -> str:
    """Return the part of the configuration that *user* changes, as a file."""
    database = StoredConfiguration()
    return export_part(FileReach(user, database=database), database=database)


def compare(source: bytes, *, user: User, now: datetime) -> FileComparison:
    """Return what a file would change; the database has accepted it, and nothing is stored.

    Args:
        source: the file, YAML in UTF-8.
        user: its author, a manager of VOs or an operator.
        now: time of the call.

    Raises:
        ConfigurationError: with all errors of the file.
    """
    return _carried_out(source, user=user, now=now, settle=None)


def apply(
    source: bytes,
    *,
    user: User,
    now: datetime,
    version: str,
    confirmed: Collection[str],
    deletions_confirmed: bool,
    is_log_in_fresh: bool,
) -> FileComparison:
    """Apply a file that was compared.

    Args:
        source, user, now: as for ``compare``.
        version: of the comparison.
        confirmed: sentences of the consequences that are meant.
        deletions_confirmed: whether the deletions are meant.
        is_log_in_fresh: whether rights of people may change.

    Raises:
        ConfigurationError: with all errors of the file.
        OtherVersionError: the configuration or the file has changed since.
        DeletionsNotConfirmedError, ConfirmationNeededError: something is not confirmed.
        OldLogInError: rights of people change.
    """

    def settle(found: FileComparison) -> None:
        if found.version != version:
            raise OtherVersionError(
                "Nothing was changed: the configuration, or the file, is not the one that was compared. "
                "Compare them again."
            )
        if found.changes_people and not is_log_in_fresh:
            raise OldLogInError("The file changes members or rights of people: log in again, and repeat it.")
        if found.deletions and not deletions_confirmed:
            detail = f"Nothing was changed. The file deletes: {'; '.join(found.deletions)}. Confirm the deletions."
            raise DeletionsNotConfirmedError(detail, errors={"delete": found.deletions})
        require_confirmed(found.consequences, confirmed)

    return _carried_out(source, user=user, now=now, settle=settle)


def _carried_out(
    source: bytes, *, user: User, now: datetime, settle: Callable[[FileComparison], None] | None
) -> FileComparison:
    with transaction.atomic(durable=True):
        lock(LockKey.CONFIGURE)
        lock_limits()
        reading, database = Reading(None), StoredConfiguration()
        reach = FileReach(user, database=database, reading=reading)
        version = _version(source, reach, database=database)
        planned = changes_in(source, reading=reading, database=database, now=now, bounds=reach)
        consequences = Consequences(planned, database=database)
        record_removals(planned, database=database, door="file")
        write(planned, database=database, now=now)
        _check_limits(planned, reach, database=database)
        stops = tuple(consequence for _, consequence in consequences.found())
        record_changes(planned, database=database, door="file")
        end_payloads_of_plan(planned, database=database, reading=reading, by=user, now=now)
        found = FileComparison(
            version=version,
            differences=tuple(planned.differences),
            deletions=tuple(_deletions(planned, database=database)),
            consequences=stops,
            # One without a place is of rows that the file does not have, which may be those of others.
            warnings=tuple(sorted({each for each in reading.warnings if each.path or reach.vos is None})),
            changes_people=_changes_people(planned, database=database),
        )
        if settle is None:
            transaction.set_rollback(True)
        else:
            settle(found)
    if settle is not None:
        submit_pools.refresh_stale(now=now)
    return found


def _version(source: bytes, reach: FileReach, *, database: StoredConfiguration) -> str:
    """Return the digest of a file and of the part of the configuration that its author changes."""
    content = json.dumps(content_of(database, reach=reach), sort_keys=True)
    return sha256(sha256(content.encode()).digest() + source).hexdigest()


def _check_limits(planned: Plan, reach: FileReach, *, database: StoredConfiguration) -> None:
    """Refuse limits that the author may not set, or that double another one, as the administration does."""
    changes = [change for section, change in planned.changes if section is database.limits]
    problems = [
        change.entry.remark(field if field in change.entry.source.lines else "", sentence.removesuffix("."))
        for change in changes
        for field, sentence in mistakes_in(database.limits.rows[change.identity], managed_vos=reach.vos)
    ]
    if problems:
        raise ConfigurationError(problems)


def _deletions(planned: Plan, *, database: StoredConfiguration) -> Iterator[str]:
    for identity in planned.removed_limits:
        yield f"limit {limit_shown(database.limits.entries[identity])}"
    for section, change in planned.changes:
        yield from _taken(section, change)


def _taken(section: AnySection, change: AnyChange) -> Iterator[str]:
    stored: Any = section.entries.get(change.identity)
    for (noun, key), words in _TAKEN.items():
        if stored is not None and section.record.noun == noun:
            for name in sorted({*getattr(stored, key)} - {*getattr(change.entry, key)}):
                yield words.format(row=change.identity[-1], name=name)


def _changes_people(planned: Plan, *, database: StoredConfiguration) -> bool:
    return any(
        section is database.users
        or (section is database.vos and "managers" in change.changed)
        or (section is database.groups and "properties" in change.changed and not change.is_new)
        for section, change in planned.changes
    )
