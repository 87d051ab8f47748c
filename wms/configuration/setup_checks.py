"""Checks of the setups that are chosen for pilots: some VO there must have each (ADR 83)."""

from collections.abc import Collection, Mapping

from resources.services.setups import flaw_of_setup
from wms.configuration.entries import SectionEntry
from wms.configuration.plan import Plan, StoredConfiguration, entries_after
from wms.configuration.schema import Configuration


def note_unknown_setups(file: Configuration, new_plan: Plan, *, database: StoredConfiguration) -> None:
    """Refuse setups of pilots that the file states and that no VO has whose pilots they could be.

    Args:
        file: as read.
        new_plan: the planned changes; problems are added to it.
        database: the stored configuration.
    """
    setups_of = {vo.name: vo.setups for vo in entries_after(new_plan, database.vos).values()}
    sites = entries_after(new_plan, database.sites)
    for director in file.directors:
        _note(director, director.setup, setups_of, new_plan)
    for site in file.sites:
        served = sites.get((site.name,), site).vos or setups_of
        there = {name: setups for name, setups in setups_of.items() if name in served}
        if site.tokens is not None:
            _note(site.tokens, site.tokens.setup, there, new_plan)
        for ce in site.ces:
            _note(ce, ce.setup, there, new_plan)
            for queue in ce.queues:
                _note(queue, queue.setup, there, new_plan)


def _note(entry: SectionEntry, setup: str, setups_of: Mapping[str, Collection[str]], new_plan: Plan) -> None:
    if flaw := flaw_of_setup(setup, setups_of):
        new_plan.problems.append(entry.remark("setup", flaw.removesuffix(".")))
