"""A small VO, and clients of its users."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import pytest
from rest_framework.test import APIClient

from resources.models import Site
from taskqueues.models import QueuedJob, SubmitPool, TaskQueue
from tests import factories
from wms.accounts.models import VO, Group, User
from wms.jobs.models import InputSandbox, Job, JobCommand, JobHistory, Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice owns jobs; Bob is in prod too; Charlie is in another group; Mallory manages the VO; Olga is an operator."""

    vo: VO
    #: Does not share jobs: Alice and Dora are in it.
    users: Group
    #: Shares jobs: Alice and Bob are in it.
    prod: Group
    alice: User
    bob: User
    charlie: User
    dora: User
    mallory: User
    olga: User
    cern: Site
    ral: Site


def make_sample() -> SampleData:
    vo = factories.make_vo(name="lhcb", setup="LHCb-Production", setups=["LHCb-Devel"])
    users = factories.make_group(name="lhcb_user", vo=vo)
    prod = factories.make_group(name="lhcb_prod", vo=vo, shares_jobs=True)
    other = factories.make_group()
    cern, ral = factories.make_site(name="LCG.CERN.ch", vos=[vo]), factories.make_site(name="LCG.RAL.uk", vos=[vo])
    factories.make_queue(ce=factories.make_ce(name="ce01.cern.ch", site=cern), platforms=["x86_64-el9"], tags=["gpu"])
    return SampleData(
        vo=vo,
        users=users,
        prod=prod,
        alice=factories.make_user(username="alice", groups=[users, prod], default_group=users),
        bob=factories.make_user(username="bob", groups=[prod]),
        charlie=factories.make_user(username="charlie", groups=[other]),
        dora=factories.make_user(username="dora", groups=[users]),
        mallory=factories.make_user(username="mallory", groups=[other], manages=[vo]),
        olga=factories.make_user(username="olga", operator=True),
        cern=cern,
        ral=ral,
    )


@pytest.fixture(scope="module")
def sample_of_module(rows_of_module: None) -> SampleData:
    return make_sample()


@pytest.fixture
def sample(sample_of_module: SampleData, db: None) -> SampleData:
    return deepcopy(sample_of_module)


@pytest.fixture
def client_of() -> Callable[[User], APIClient]:
    def client_of(user: User) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(user)}")
        return client

    return client_of


@pytest.fixture
def alice(sample: SampleData, client_of: Callable[[User], APIClient]) -> APIClient:
    """Return Alice's client."""
    return client_of(sample.alice)


@pytest.fixture
def everything() -> Callable[[], object]:
    """Return all stored rows about jobs, to be compared before and after a refusal."""

    def everything() -> object:
        tables = (Submission, Job, JobHistory, JobCommand, InputSandbox, TaskQueue, QueuedJob, SubmitPool)
        return [list(table._default_manager.order_by("pk").values()) for table in tables]

    return everything
