"""Two concurrent directors, and two concurrent uses of one secret, on real connections."""

from datetime import UTC, datetime
from functools import partial
from random import Random

import pytest
from django.db import transaction

from matching.queries.restrictions import closings_now
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.services import ce_cycle
from pilots.services.director_cycle import run_cycle
from pilots.services.registration import Registration, register_sent
from pilots.services.secrets import SecretUsedError, issue_secrets
from tests.database.pilots.conftest import ScriptedBackend
from tests.factories import NOW, make_group, make_queue, make_task_queue, make_vo
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("jobs", "max_pilots", "sent"), [(10, 100, 10), (50, 7, 7)])
def test_two_concurrent_directors_respect_waiting_jobs_and_limits(jobs: int, max_pilots: int, sent: int) -> None:
    queue = make_queue(max_waiting_pilots=100, max_pilots=max_pilots)
    CEHealth.objects.create(ce=queue.ce, asked_at=NOW, free_slots=1000)
    make_task_queue(group=make_group(), job_ids=range(1, jobs + 1))

    at_once([partial(run_cycle, closings=closings_now, chance=Random(n), now=NOW) for n in range(4)])

    assert Pilot.objects.count() == sent


def test_one_of_many_concurrent_rounds_submits(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = ScriptedBackend()
    monkeypatch.setattr(ce_cycle, "backend_of", lambda _ce: backend)
    queue = make_queue()
    CEHealth.objects.create(ce=queue.ce, asked_at=NOW, free_slots=1000)
    make_task_queue(group=make_group(), job_ids=range(1, 6))
    run_cycle(closings=closings_now, chance=Random(1), now=NOW)

    at_once([partial(ce_cycle.serve, queue.ce_id, clock=lambda: NOW)] * 4)

    stamps = [order.stamp for order in backend.orders]
    assert len(stamps) == len(set(stamps)) == 5
    assert Pilot.objects.filter(status=PilotStatus.WAITING).count() == 5


def test_a_secret_used_concurrently_registers_one_pilot() -> None:
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
