"""Builds the simulated scenario from the entries of the files."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain

from matching.domain.simulation.scenario import RunTime, Scenario, SimulatedGroup, SimulatedVO, Slots, Work
from resources.domain.enums import PilotType, ResourceState
from resources.domain.parameters import LevelParameters, effective
from resources.domain.software import PARAMETER, PublishedSoftware, software_of_queue
from taskqueues.domain.definition import JobRequirements, Rounding, define
from taskqueues.domain.offer import ResourceOffer
from wms.accounts.domain import GroupProperty
from wms.configuration.resource_schema import CEEntry, QueueEntry, SiteEntry
from wms.configuration.schema import VOEntry
from wms.simulation.scenario_file import Entries
from wms.simulation.schema import LoadEntry
from wms.wire.amounts import amounts_of


def scenario_of(entries: Entries, load: Collection[LoadEntry], *, rounding: Rounding) -> Scenario:
    """Return the scenario; VOs, groups and users are numbered in their order.

    Args:
        entries: the configuration; it holds every referenced name.
        load: the submitted jobs.
        rounding: of CPU time and memory, as on the server.
    """
    building = _Building(entries, load)
    return Scenario(
        vos=tuple(building.vos()),
        groups=tuple(building.groups()),
        users={number: name for name, number in building.number_of_user.items()},
        suspended=frozenset(
            building.number_of_user[user.username]
            for user in entries.users
            if user.suspended and user.username in building.number_of_user
        ),
        work=tuple(building.work(entry, rounding) for entry in load),
        slots=tuple(building.slots()),
    )


class _Building:
    def __init__(self, entries: Entries, load: Collection[LoadEntry]) -> None:
        self._entries = entries
        self._vo_of = {vo.name: vo for vo in entries.vos}
        self._group_of = {group.name: group for group in entries.groups}
        self._number_of_vo = _numbers(self._vo_of)
        self._number_of_group = _numbers(self._group_of)
        self.number_of_user = _numbers(entry.user for entry in load)
        self._software_of = {vo.name: self._published(vo) for vo in entries.vos}
        self._runs_on = {platform.name: platform.runs for platform in entries.platforms}

    def vos(self) -> Iterable[SimulatedVO]:
        return (
            SimulatedVO(
                vo_id=self._number_of_vo[vo.name],
                name=vo.name,
                history_fair_share=vo.history_fair_share,
                any_segment_fraction=vo.any_segment_fraction,
            )
            for vo in self._entries.vos
        )

    def groups(self) -> Iterable[SimulatedGroup]:
        return (
            SimulatedGroup(
                group_id=self._number_of_group[group.name],
                vo_id=self._number_of_vo[group.vo],
                name=group.name,
                share=group.priority,
                shares_jobs=GroupProperty.JOB_SHARING in group.properties,
            )
            for group in self._entries.groups
        )

    def work(self, entry: LoadEntry, rounding: Rounding) -> Work:
        vo = self._vo_of[self._group_of[entry.group].vo]
        definition = define(
            JobRequirements(
                owner_id=self.number_of_user[entry.user],
                group_id=self._number_of_group[entry.group],
                vo_id=self._number_of_vo[vo.name],
                setup=vo.setup,
                cpu_time_s=entry.cpu_time_s,
                sites=entry.sites,
                banned_sites=entry.banned_sites,
                grid_ces=entry.grid_ces,
                platforms=entry.platforms,
                job_type=entry.job_type,
                tags=entry.tags,
                **amounts_of(entry),
                container=bool(entry.container),
                software=entry.software,
            ),
            rounding=rounding,
        )
        return Work(
            definition=definition,
            user_priority=entry.priority,
            jobs_per_day=entry.jobs_per_day,
            waiting_at_start=entry.waiting,
            run_time=RunTime(mean_s=entry.run_time.mean_s, sigma=entry.run_time.sigma, most_s=_most_s(entry)),
        )

    def slots(self) -> Iterable[Slots]:
        return (
            Slots(
                site=site.name,
                number=queue.max_pilots,
                processors=queue.processors,
                offers={
                    self._number_of_vo[vo.name]: self._offer(vo, site, ce, queue)
                    for vo in self._entries.vos
                    if not site.vos or vo.name in site.vos
                },
            )
            for site in self._entries.sites
            for ce in site.ces
            for queue in ce.queues
        )

    def _offer(self, vo: VOEntry, site: SiteEntry, ce: CEEntry, queue: QueueEntry) -> ResourceOffer:
        """Return the offer of a generic pilot of *vo* that has just started (``taskqueues.services.offers``)."""
        # An inactive level stays so: a simulation has no date on which a ban could end.
        published = self._software_of[vo.name]
        active = all(level.status.state == ResourceState.ACTIVE for level in (site, ce, queue))
        return ResourceOffer(
            vo_id=self._number_of_vo[vo.name],
            setup=next((setup for setup in (queue.setup, ce.setup) if setup in (vo.setups or (vo.setup,))), None),
            cpu_time_s=queue.cpu_time_s,
            site=site.name,
            accepting=active and (not ce.pilot_types or PilotType.GENERIC in ce.pilot_types),
            ce=ce.name,
            platforms=self._platforms(queue),
            submit_pools=None,
            lacking_software=published.lacking(published.common_to([(site.name, ce.name, queue.name)])),
            tags=queue.tags,
            required_tags=queue.required_tags,
            job_types=queue.job_types,
            **amounts_of(queue),
            container=queue.container,
        )

    def _published(self, vo: VOEntry) -> PublishedSoftware:
        """Return the software that the queues serving *vo* publish, by the names of site, CE and queue."""
        of_queue: dict[Hashable, frozenset[str]] = {}
        for site in self._entries.sites:
            for ce in site.ces if not site.vos or vo.name in site.vos else ():
                for queue in ce.queues:
                    levels = [
                        LevelParameters.read(level.parameters, level.vo_parameters, vo=vo.name)
                        for level in (site, ce, queue)
                    ]
                    value = effective(*levels).get(PARAMETER)
                    of_queue[site.name, ce.name, queue.name] = software_of_queue(queue.tags, value)
        return PublishedSoftware(of_queue)

    def _platforms(self, queue: QueueEntry) -> tuple[str, ...] | None:
        nodes = queue.platforms
        return tuple(sorted({*nodes, *chain(*(self._runs_on.get(node, ()) for node in nodes))})) if nodes else None


def _most_s(entry: LoadEntry) -> int:
    """Return the time limit of the jobs, on a machine of the reference's speed."""
    return min(entry.cpu_time_s, entry.wall_time_s) if entry.wall_time_s else entry.cpu_time_s


def _numbers(names: Iterable[str]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}
