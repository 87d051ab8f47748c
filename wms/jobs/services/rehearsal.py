"""The rehearsal of a submission: the checks of its jobs, of which nothing is written."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from wms.accounts.models import User
from wms.accounts.services import acting_group
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.steps import optimize
from wms.jobs.services.sandboxes import NamedSandbox


def rehearse(request: SubmissionIn, *, owner: User, coming_files: Mapping[str, NamedSandbox], now: datetime) -> Arrival:
    """Return the jobs of *request* with the errors and warnings that a submission would get now from the optimizers.

    Args:
        request: the parsed request.
        owner: the owner of the jobs.
        coming_files: {reference in the request: file that is not uploaded yet}; its row is not saved.
        now: the time of the request.

    Raises:
        RejectedError: the group to act in is wrong; with errors of ``group``.
    """
    group = acting_group(owner, request.group)
    arrival = Arrival(owner=owner, group=group, jobs=tuple(request.jobs), now=now, coming_files=coming_files)
    arrival.warn_of_all(request.warnings)
    try:
        with transaction.atomic():
            optimize(arrival)
    except InvalidDescriptionError:
        pass  # its errors are those of the arrival
    return arrival
