"""Placeholders in jobs that are not parametric: what is replaced, and what only looks so, is told (ADR 79)."""

from collections.abc import Mapping

from wms.jobs.domain.description import InvalidDescriptionError, JobDescription
from wms.jobs.domain.placeholders import (
    FILE_NAMES,
    has_id,
    id_warning,
    refuse_too_long_with_id,
    unknown_placeholders,
)
from wms.jobs.domain.request import RequestedJob
from wms.jobs.services.optimizers.arrival import Arrival


def check_placeholders(arrival: Arrival) -> None:
    """Refuse jobs whose texts become too long with an id, and warn of replacements and of unknown placeholders."""
    with_id = {id(common): has_id(common) for common in arrival.commons}
    of_common: dict[int, list[int]] = {}
    warned: dict[str, list[int]] = {}
    for position, job in enumerate(arrival.jobs):
        if job.parametric:
            continue
        _, name, arguments = job.described
        of_common.setdefault(id(job.common), []).append(position)
        if with_id[id(job.common)] or "%j" in arguments or "%j" in name:
            _check_id(arrival, job)
            warned.setdefault(id_warning(job.described), []).append(position)
    for positions in of_common.values():
        for sentence in unknown_placeholders(_file_names(arrival.jobs[positions[0]].common), parametric=False):
            warned.setdefault(sentence, []).extend(positions)
    arrival.warn_of_all({sentence: sorted(positions) for sentence, positions in warned.items() if sentence})


def _check_id(arrival: Arrival, job: RequestedJob) -> None:
    if arrival.refused_enough:
        return
    try:
        refuse_too_long_with_id(job.described, parametric=False)
    except InvalidDescriptionError as error:
        arrival.refuse_as(job, error)


def _file_names(description: JobDescription) -> Mapping[str, object]:
    return {name: getattr(description, name) for name in FILE_NAMES}
