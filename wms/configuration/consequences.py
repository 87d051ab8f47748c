"""Consequences of a file's changes: errors until they are confirmed, warnings where no job waits or runs (ADR 105)."""

from collections.abc import Iterator

from matching.queries.closing import of_closing
from resources.domain.enums import ResourceState
from resources.domain.parameters import names_in
from resources.models import Site
from taskqueues.models import Limit
from taskqueues.services.consequences import (
    closes,
    of_expression,
    of_job_types,
    of_parameters,
    of_priority,
    of_served,
    of_stored_limits,
    of_throttle,
)
from taskqueues.services.narrowing import COMPARED, WaitingTaskQueues
from wms.accounts.models import VO
from wms.configuration.plan import Plan, StoredConfiguration, entries_after
from wms.configuration.problems import ConfigurationError
from wms.configuration.reading import Reading
from wms.configuration.sections import AnyChange, AnySection
from wms.kernel.consequences import Consequence
from wms.kernel.db import database_now


class Consequences:
    """The consequences of a plan, for which the state before the plan is written is kept; they are checked after.

    Args:
        planned: the changes.
        database: the stored configuration, which the changes are written to.
    """

    def __init__(self, planned: Plan, *, database: StoredConfiguration) -> None:
        self._database = database
        self._now = database_now()
        self._limits = list(_of(planned, database.limits))
        self._groups = [
            each for each in _of(planned, database.groups) if "priority" in each.changed and not each.is_new
        ]
        self._throttles = [each for each in _of(planned, database.sites) if "throttle" in each.changed]
        stored: list[Site] = [database.sites.rows[each.identity] for each in self._throttles if not each.is_new]
        self._served = [each for each in _of(planned, database.sites) if "vos" in each.changed and not each.is_new]
        waiting = self._waiting = WaitingTaskQueues(now=self._now)
        self._narrowed = [
            (each, waiting.fitting(database.queues.rows[each.identity]))
            for each in _of(planned, database.queues)
            if COMPARED & each.changed and not each.is_new
        ]
        self._platforms = [
            (each, waiting.naming({*database.platforms.entries[each.identity].runs} - {*each.entry.runs}))
            for each in _of(planned, database.platforms)
            if not each.is_new
        ]
        self._job_types = [each for each in _of(planned, database.queues) if "job_types" in each.changed]
        self._directors = [each for each in _of(planned, database.directors) if "job_types" in each.changed]
        self._closed = [
            (section, change)
            for section, change in planned.changes
            if section in (database.sites, database.ces, database.queues)
            and not change.is_new
            and section.entries[change.identity].status.state == ResourceState.ACTIVE
            and change.entry.status.state != ResourceState.ACTIVE
        ]
        sites = entries_after(planned, database.sites)
        self._parameters = [
            (change, consequence)
            for section, change in planned.changes
            if section in (database.sites, database.ces, database.queues)
            for consequence in of_parameters(
                _new_parameters(section, change),
                vos=VO.objects.filter(name__in=sites[change.identity[:1]].vos),
            )
        ]
        self._open_sites = {site.pk for site in stored if not closes(site, now=self._now)}

    def check(self, reading: Reading, *, confirmed: bool) -> None:
        """Warn of what the written changes stop.

        Args:
            reading: warnings are added to it.
            confirmed: whether jobs that wait or run may be stopped.

        Raises:
            ConfigurationError: they would be, and that is not confirmed.
        """
        problems = []
        for change, consequence in self.found():
            if consequence.is_felt and not confirmed:
                sentence = f"{consequence} If that is meant, repeat the command with --confirm."
                problems.append(change.entry.remark("", sentence))
            else:
                reading.warnings.append(change.entry.remark("", str(consequence)))
        if problems:
            raise ConfigurationError(problems)

    def found(self) -> Iterator[tuple[AnyChange, Consequence]]:
        """Yield what the written changes stop, each with its change."""
        limits = {self._database.limits.rows[each.identity].pk: each for each in self._limits}
        for pk, consequences in of_stored_limits(Limit.objects.filter(pk__in=limits)).items():
            yield from ((limits[pk], each) for each in consequences)
        for change in self._groups:
            yield from ((change, each) for each in of_priority(self._database.groups.rows[change.identity]))
        for change in self._throttles:
            site = self._database.sites.rows[change.identity]
            yield from (
                (change, each) for each in of_throttle(site, was_open=site.pk in self._open_sites, now=self._now)
            )
            yield from ((change, each) for each in of_expression(site))
        for change in self._served:
            before, after = self._database.sites.entries[change.identity].vos, change.entry.vos
            vos_before, vos_after = ([self._database.vos.rows[name,] for name in names] for names in (before, after))
            site = self._database.sites.rows[change.identity]
            yield from ((change, each) for each in of_served(site, before=vos_before, after=vos_after))
        for change in self._job_types:
            queue = self._database.queues.rows[change.identity]
            found = of_job_types(queue.job_types, whose=f"the queue {queue.name}", site=queue.ce.site)
            yield from ((change, each) for each in found)
        for change in self._directors:
            director = self._database.directors.rows[change.identity]
            found = of_job_types(director.job_types, whose=f"the director {director.name}")
            yield from ((change, each) for each in found)
        for change, fitted in self._narrowed:
            queue = self._database.queues.rows[change.identity]
            yield from ((change, each) for each in self._waiting.of_queue(queue, before=fitted))
        for change, ran in self._platforms:
            platform = self._database.platforms.rows[change.identity]
            yield from ((change, each) for each in self._waiting.of_platform(platform, before=ran))
        for section, change in self._closed:
            yield change, of_closing(section.rows[change.identity])
        yield from self._parameters


def _of(planned: Plan, section: AnySection) -> Iterator[AnyChange]:
    return (change for of, change in planned.changes if of is section)


def _new_parameters(section: AnySection, change: AnyChange) -> frozenset[str]:
    """Return the names of the parameters that a change gives to a place which had none of them."""
    if not change.changed & {"parameters", "vo_parameters"}:
        return frozenset()
    stored, entry = section.entries.get(change.identity), change.entry
    before = frozenset() if stored is None else names_in(stored.parameters, stored.vo_parameters)
    return names_in(entry.parameters, entry.vo_parameters) - before
