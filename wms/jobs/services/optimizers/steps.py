"""The optimizers: steps that every job passes before it enters a task queue: sanity, input data, requirements.

Each step processes all jobs of a request together, so that ten thousand equal jobs cost little more than one.
"""

from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.input_data import locate_input_data
from wms.jobs.services.optimizers.requirements import register_requirements
from wms.jobs.services.optimizers.sanity import check_sanity
from wms.kernel.db import transaction_required


@transaction_required
def optimize(arrival: Arrival) -> None:
    """Run every step on the jobs.

    Raises:
        InvalidDescriptionError: with the errors of all jobs from the first failing step.
    """
    for step in (check_sanity, locate_input_data, register_requirements):
        step(arrival)
        if arrival.errors:
            raise InvalidDescriptionError(arrival.errors)
