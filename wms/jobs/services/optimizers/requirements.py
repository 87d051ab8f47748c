"""The requirements step: registers a submit pool for each distinct set of requirements (RFC7)."""

import json
from typing import Final

from resources.domain.requirements import check
from resources.queries.known_names import requirement_kinds, requirement_names, requirement_units
from taskqueues.domain.definition import JobRequirements, stated_by
from taskqueues.services import submit_pools
from wms.jobs.domain.description import JobDescription
from wms.jobs.domain.jdl import field_hint
from wms.jobs.services.optimizers.arrival import Arrival
from wms.kernel.errors import RejectedError

#: Sets of requirements per request; the eligible queues of each are found during the request.
MAX_REQUIREMENT_SETS: Final = 100


def requirements_key(description: JobDescription) -> str:
    """Return a key that is equal for equal requirements; empty without requirements."""
    # NB: the pairs themselves are no keys: in Python 1, 1.0 and True are equal.
    return json.dumps(description.requirements) if description.requirements else ""


def requirements_of(arrival: Arrival, description: JobDescription, *, sites: tuple[str, ...]) -> JobRequirements:
    """Return the requirements of an arriving job that may run at these sites; empty: anywhere.

    Those on resources are the submit pool that is registered for them; in a rehearsal none is.
    """
    pool = arrival.pools.get(requirements_key(description))
    stated = stated_by(description) | {"sites": sites}
    return JobRequirements(
        **(stated if pool is None else stated | {"submit_pools": (pool,)}),
        owner_id=arrival.owner.pk,
        group_id=arrival.group.pk,
        vo_id=arrival.vo.pk,
        # The current default setup is stored: it must not change while the job waits.
        setup=description.setup or arrival.vo.setup,
        container=bool(description.container),
    )


def register_requirements(arrival: Arrival) -> None:
    """Register a submit pool for each distinct set of requirements (RFC7)."""
    requiring = arrival.among(lambda description: description.requirements)
    by_key = {requirements_key(job.common): job for job in reversed(requiring)}
    if not by_key:
        return
    if len(by_key) > MAX_REQUIREMENT_SETS:
        sentence = (
            f"One request may have {MAX_REQUIREMENT_SETS} different requirements, not {len(by_key)}; send several."
        )
        arrival.refuse(next(iter(by_key.values())), "requirements", sentence)
        return
    names, kinds, units = requirement_names(arrival.vo), requirement_kinds(arrival.vo), requirement_units(arrival.vo)
    for job in by_key.values():
        try:
            check(dict(job.common.requirements), known=names, kinds=kinds, units=units, hint=field_hint)
        except RejectedError as error:
            arrival.refuse_as(job, error)
        if arrival.refused_enough:
            break
    if arrival.errors or arrival.is_rehearsal:
        return
    requirement_sets = [dict(job.common.requirements) for job in by_key.values()]
    pools = submit_pools.register_all(vo=arrival.vo, requirements=requirement_sets, now=arrival.now)
    arrival.pools |= {key: pool.id for key, pool in zip(by_key, pools, strict=True)}
