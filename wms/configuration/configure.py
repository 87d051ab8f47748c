"""`manage.py configure`: a file is read wholly, then compared, then written in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from taskqueues.services import priorities, submit_pools
from wms.configuration.document import Node, parse
from wms.configuration.parameter_checks import note_misfits
from wms.configuration.plan import Plan, World, plan
from wms.configuration.problems import ConfigurationError, Remark, Unreadable
from wms.configuration.reading import Location, Reading
from wms.configuration.recording import record_changes
from wms.configuration.records import RecordOf
from wms.configuration.schema import Configuration
from wms.kernel.db import LockKey, lock, transaction_required

#: What decides where a job is eligible.
_OF_ELIGIBILITY = frozenset({"parameters", "vo_parameters", "vos", "kind"})
#: What decides the priorities of a group's task queues.
_OF_PRIORITIES = frozenset({"priority", "properties"})
#: What decides the priorities of all task queues of a VO.
_OF_CORRECTIONS = frozenset({"history_fair_share"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationResult:
    """What a file changed, or would change."""

    #: One line each: + made, ~ changed, - removed.
    differences: tuple[str, ...]
    warnings: tuple[Remark, ...]


def configure(
    source: bytes, *, environ: Mapping[str, str], now: datetime, dry_run: bool = False
) -> ConfigurationResult:
    """Make the database say what the configuration file says; repeating it changes nothing.

    Args:
        source: the file, YAML in UTF-8.
        environ: where ``${NAME}`` is looked up.
        now: the edge's clock.
        dry_run: write everything, then roll it back: what a dry run promises, the database has accepted.

    Raises:
        ConfigurationError: everything that is wrong with the file; nothing was written.
    """
    node = parse(source)
    with transaction.atomic(durable=True):
        lock(LockKey.CONFIGURE)
        reading, world = Reading(environ), World()
        made = _planned(node, reading=reading, world=world, now=now)
        _write(made, world=world, now=now)
        record_changes(made, world=world)
        if dry_run:
            transaction.set_rollback(True)
    # Beat would do it in seconds; who configures may submit at once.
    submit_pools.refresh_stale(now=now)
    return ConfigurationResult(differences=tuple(made.differences), warnings=tuple(sorted(set(reading.warnings))))


def _planned(node: Node, *, reading: Reading, world: World, now: datetime) -> Plan:
    try:
        file = RecordOf(Configuration).read(node, Location(reading, ""))
    except Unreadable as error:
        raise ConfigurationError(reading.problems) from error
    made = plan(file, world=world, reading=reading, now=now)
    note_misfits(file, made, world=world, reading=reading)
    problems = [*reading.problems, *made.problems]
    if problems:
        raise ConfigurationError(problems)
    return made


@transaction_required
def _write(made: Plan, *, world: World, now: datetime) -> None:
    for identity in made.removed_limits:
        world.limits.remove(identity)
    for section, change in made.changes:
        section.write(change)
    for section, change in made.changes:
        section.link(change)
    for section, change in made.changes:
        if section is world.groups and not change.is_new and change.changed & _OF_PRIORITIES:
            priorities.mark_changed(group_id=world.groups.rows[change.identity].pk, now=now)
        if section is world.vos and not change.is_new and change.changed & _OF_CORRECTIONS:
            priorities.mark_groups_of(vo_id=world.vos.rows[change.identity].pk, now=now)
    _mark_stale_pools(made, world=world, now=now)


def _mark_stale_pools(made: Plan, *, world: World, now: datetime) -> None:
    """Mark the submit pools whose queues may be others now: of all VOs, for a file says much at once."""
    of_resources = [change for section, change in made.changes if section in world.of_resources()]
    if any(change.changed & _OF_ELIGIBILITY for change in of_resources):
        submit_pools.mark_stale(None, now=now)
