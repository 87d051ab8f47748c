"""`manage.py configure`: read the whole file, compare it with the database, write the changes in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from taskqueues.services import priorities, submit_pools
from taskqueues.services.limits import lock_limits
from wms.accounts.models import User
from wms.configuration.consequences import Consequences
from wms.configuration.entries import read
from wms.configuration.parameter_checks import note_misfits
from wms.configuration.plan import FileBounds, Plan, StoredConfiguration, plan
from wms.configuration.problems import ConfigurationError, Remark
from wms.configuration.reading import Reading
from wms.configuration.recording import record_changes, record_removals
from wms.configuration.schema import Configuration, UserEntry
from wms.configuration.setup_checks import note_unknown_setups
from wms.jobs.services.suspensions import end_payloads
from wms.kernel.db import LockKey, lock, transaction_required

#: Keys on which the eligible queues of a job depend.
_OF_ELIGIBILITY = frozenset({"parameters", "vo_parameters", "vos", "kind"})
#: Keys on which the priorities of a group's task queues depend.
_OF_PRIORITIES = frozenset({"priority", "properties"})
#: Keys on which the priorities of all task queues of a VO depend.
_OF_CORRECTIONS = frozenset({"history_fair_share"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationResult:
    """The changes by a file, made or, in a dry run, only tried."""

    #: One line each: + added, ~ changed, - removed.
    differences: tuple[str, ...]
    warnings: tuple[Remark, ...]


def configure(
    source: bytes, *, environ: Mapping[str, str], now: datetime, dry_run: bool = False, confirmed: bool = False
) -> ConfigurationResult:
    """Apply the configuration file to the database; repeating it changes nothing.

    Args:
        source: the file, YAML in UTF-8.
        environ: values of ``${NAME}``.
        now: time of the call.
        dry_run: write everything, then roll it back, so that the database has accepted the changes.
        confirmed: accept also changes that stop jobs which wait or run.

    Raises:
        ConfigurationError: with all errors of the file; nothing was written.
    """
    with transaction.atomic(durable=True):
        lock(LockKey.CONFIGURE)
        lock_limits()
        reading, database = Reading(environ), StoredConfiguration()
        planned = changes_in(source, reading=reading, database=database, now=now)
        consequences = Consequences(planned, database=database)
        record_removals(planned, database=database)
        write(planned, database=database, now=now)
        consequences.check(reading, confirmed=confirmed)
        record_changes(planned, database=database)
        end_payloads_of_plan(planned, database=database, reading=reading, by=None, now=now)
        if dry_run:
            transaction.set_rollback(True)
    # Beat would do it within seconds; jobs may be submitted at once.
    submit_pools.refresh_stale(now=now)
    return ConfigurationResult(
        differences=tuple(map(str, planned.differences)), warnings=tuple(sorted(set(reading.warnings)))
    )


def changes_in(
    source: bytes, *, reading: Reading, database: StoredConfiguration, now: datetime, bounds: FileBounds | None = None
) -> Plan:
    """Return the changes that a file makes.

    Args:
        source: the file, YAML in UTF-8.
        reading: takes the warnings.
        database: the stored configuration.
        now: time of the call.
        bounds: of the file's author; None: all may be changed.

    Raises:
        ConfigurationError: with all errors of the file.
    """
    file = read(source, Configuration, reading)
    planned = plan(file, database=database, reading=reading, now=now, bounds=bounds)
    note_misfits(file, planned, database=database, reading=reading)
    note_unknown_setups(file, planned, database=database)
    problems = [*reading.problems, *planned.problems]
    if problems:
        raise ConfigurationError(problems)
    return planned


@transaction_required
def write(planned: Plan, *, database: StoredConfiguration, now: datetime) -> None:
    """Write the changes, and mark what follows from them for recalculation."""
    for identity in planned.removed_limits:
        database.limits.remove(identity)
    for section, change in planned.changes:
        section.write(change)
    for section, change in planned.changes:
        section.link(change)
    for section, change in planned.changes:
        if section is database.groups and not change.is_new and change.changed & _OF_PRIORITIES:
            priorities.mark_changed(group_id=database.groups.rows[change.identity].pk, now=now)
        if section is database.vos and not change.is_new and change.changed & _OF_CORRECTIONS:
            priorities.mark_groups_of(vo_id=database.vos.rows[change.identity].pk, now=now)
    _mark_stale_pools(planned, database=database, now=now)


@transaction_required
def end_payloads_of_plan(
    planned: Plan, *, database: StoredConfiguration, reading: Reading, by: User | None, now: datetime
) -> None:
    """Kill what pilots hold of people whom the file suspends, and say the numbers in the warnings of *reading*."""
    for _, change in planned.changes:
        is_suspended = isinstance(change.entry, UserEntry) and change.entry.suspended and "suspended" in change.changed
        if is_suspended and not change.is_new:
            result = end_payloads([database.users.rows[change.identity]], by=by, now=now)
            reading.warnings.append(change.entry.remark("suspended", f"{change.entry.username}: {result}."))


def _mark_stale_pools(planned: Plan, *, database: StoredConfiguration, now: datetime) -> None:
    """Mark the submit pools of all VOs stale if their queues may have changed."""
    of_resources = [change for section, change in planned.changes if section in database.of_resources()]
    if any(change.changed & _OF_ELIGIBILITY for change in of_resources):
        submit_pools.mark_stale(None, now=now)
