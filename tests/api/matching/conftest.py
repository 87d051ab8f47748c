"""A VO with a waiting job, a pilot at a site, and clients of pilots and users."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from resources.models import Queue
from tests import factories
from tests.clock import patient_throttles
from wms.accounts.models import VO, Group, User

__all__ = ["patient_throttles"]


ClientOf = Callable[[User | Pilot], APIClient]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice's jobs wait; Bob is in her group; Charlie is in another; Mallory manages the VO; Olga is an operator."""

    vo: VO
    prod: Group
    alice: User
    bob: User
    charlie: User
    mallory: User
    olga: User
    queue: Queue
    pilot: Pilot


def make_sample() -> SampleData:
    vo = factories.make_vo(name="lhcb", setup="LHCb-Production", setups=["LHCb-Devel"])
    prod = factories.make_group(name="lhcb_prod", vo=vo, shares_jobs=True)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    queue = factories.make_queue(name="grid", ce=factories.make_ce(name="ce01.cern.ch", site=site))
    return SampleData(
        vo=vo,
        prod=prod,
        alice=factories.make_user(username="alice", groups=[prod]),
        bob=factories.make_user(username="bob", groups=[prod]),
        charlie=factories.make_user(username="charlie", groups=[factories.make_group()]),
        mallory=factories.make_user(username="mallory", manages=[vo]),
        olga=factories.make_user(username="olga", operator=True),
        queue=queue,
        pilot=factories.make_pilot(vo=vo, queue=queue),
    )


@pytest.fixture(scope="module")
def sample_of_module(rows_of_module: None) -> SampleData:
    return make_sample()


@pytest.fixture
def sample(sample_of_module: SampleData, db: None) -> SampleData:
    return deepcopy(sample_of_module)


@pytest.fixture
def large_slot(sample: SampleData) -> None:
    """Make the slots of the pilot's queue large enough for all jobs of a test."""
    Queue.objects.filter(pk=sample.queue.pk).update(**factories.LARGE_SLOT)


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


@pytest.fixture
def client_of() -> ClientOf:
    def client_of(who: User | Pilot) -> APIClient:
        if isinstance(who, User):
            return bearer(factories.make_token(who))
        return bearer(issue_pilot_token(who, now=timezone.now()).token)

    return client_of


@pytest.fixture
def alice(sample: SampleData, client_of: ClientOf) -> APIClient:
    return client_of(sample.alice)


@pytest.fixture
def pilot(sample: SampleData, client_of: ClientOf) -> APIClient:
    return client_of(sample.pilot)


def offer(**said: object) -> dict[str, object]:
    return {"cpu_time_s": 300_000, "request_id": str(uuid4()), "memory_mb": 4000, **said}


def lease_for(client: APIClient, **said: object) -> dict[str, Any]:
    answer = client.post("/api/v1/matches/", offer(**said), format="json")
    assert answer.status_code == 201, answer.content
    lease: dict[str, Any] = answer.json()
    return lease
