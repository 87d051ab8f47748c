"""The leases of one pilot."""

from collections.abc import Sequence
from dataclasses import dataclass

from matching.models import Match
from pilots.models import Pilot
from wms.accounts.models import User
from wms.jobs.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesOfPilot:
    """The leases of one pilot whose jobs a user may see."""

    #: The newest, with their jobs and owners.
    newest: Sequence[Match]
    count: int


def leases_of(pilot: Pilot, *, actor: User, most: int) -> LeasesOfPilot:
    """Return the newest *most* leases of *pilot* whose jobs *actor* may see, newest first, and the number of all."""
    # Uses index: a_request_of_a_pilot_gets_its_leases_once, by its first column
    seen = Match.objects.filter(pilot=pilot, job__in=Job.objects.visible_to(actor))
    newest = seen.select_related("job__owner").order_by("-leased_at", "-pk")[:most]
    return LeasesOfPilot(newest=list(newest), count=seen.count())
