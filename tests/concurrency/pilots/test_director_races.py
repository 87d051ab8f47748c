"""Two directors at once, and one secret in two hands, on real connections."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest
from django.db import transaction

from matching.queries.closings import closings_now
from pilots.backends.interface import BatchState, PilotOrder, Submission
from pilots.domain import PilotStatus
from pilots.models import Pilot
from pilots.services import fleet as fleet_module
from pilots.services.fleet import Fleet
from pilots.services.provisioning import provision
from pilots.services.registration import Registration, register_sent
from pilots.services.secrets import SecretUsedError, issue_secrets
from tests.factories import NOW, make_group, make_queue, make_task_queue, make_vo
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


class Accepting:
    """A computing element that takes everything."""

    def configure(self, options: Mapping[str, object]) -> None:
        pass

    def capacity(self) -> int:
        return 1000

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submission]:
        return [Submission(stamp=order.stamp, batch_id=order.stamp) for order in orders]

    def status(self, batch_ids: Collection[str]) -> Mapping[str, BatchState]:
        return {}

    def kill(self, batch_ids: Collection[str]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("jobs", "max_pilots", "sent"), [(10, 100, 10), (50, 7, 7)])
def test_two_directors_together_never_send_more_than_what_waits_nor_than_the_limits(
    monkeypatch: pytest.MonkeyPatch, jobs: int, max_pilots: int, sent: int
) -> None:
    monkeypatch.setattr(fleet_module, "BACKENDS", {"local": lambda *_: Accepting()})
    make_queue(max_waiting_pilots=100, max_pilots=max_pilots)
    make_task_queue(group=make_group(), job_ids=range(1, jobs + 1))
    fleets = [Fleet(directory=Path("/nowhere"), server_url="") for _ in range(4)]

    numbers = at_once(
        [partial(provision, fleet, closings=closings_now, chance=Random(n), now=NOW) for n, fleet in enumerate(fleets)]
    )

    assert sum(numbers) == sent == Pilot.objects.count()


def test_a_secret_in_many_hands_opens_one_registration() -> None:
    queue, now = make_queue(), datetime.now(tz=UTC)
    pilot = Pilot.objects.create(vo=make_vo(), queue=queue, status=PilotStatus.WAITING, submitted_at=now)
    with transaction.atomic():
        issue_secrets([pilot], now=now)
    wanted = Registration(vo=pilot.vo.name, site=queue.ce.site.name, ce=queue.ce.name, queue=queue.name)

    def once() -> bool:
        try:
            register_sent(wanted, pilot_id=pilot.pk, now=now)
        except SecretUsedError:
            return False
        return True

    assert sorted(at_once([once] * 8)) == [False] * 7 + [True]
