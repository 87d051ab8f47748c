"""The optimizers: the steps that every job passes before it gets into a task queue: sanity, input data, requirements.

Each step looks at all jobs of a request at once, so that ten thousand alike cost little more than one.
"""

from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.input_data import locate_input_data
from wms.jobs.services.optimizers.requirements import register_requirements
from wms.jobs.services.optimizers.sanity import check_sanity
from wms.kernel.db import transaction_required


@transaction_required
def optimize(arrival: Arrival) -> None:
    """Pass the jobs through every step.

    Raises:
        InvalidDescriptionError: with the errors of all jobs that the first failing step found.
    """
    for step in (check_sanity, locate_input_data, register_requirements):
        step(arrival)
        if arrival.errors:
            raise InvalidDescriptionError(arrival.errors)
