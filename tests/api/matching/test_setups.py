"""The setup of a pilot, chosen at each place where it can be (ADR 83)."""

from collections.abc import Mapping
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from pilots.models import Pilot
from pilots.services.secrets import issue_secrets, secret_of
from resources.models import ComputingElement, Queue
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData, bearer, lease_for, offer
from tests.factories import NOW
from wms.accounts.models import VO
from wms.jobs.models import Job

pytestmark = pytest.mark.usefixtures("large_slot")
PRODUCTION, DEVEL, OTHER_VOS = "LHCb-Production", "LHCb-Devel", "Atlas"
Jobs = Mapping[str, Job]


@pytest.fixture
def jobs(sample: SampleData) -> Jobs:
    """Return a waiting job of each setup of the VO."""
    factories.make_vo(name="atlas", setup=OTHER_VOS)
    return {
        setup: factories.make_job(owner=sample.alice, group=sample.prod, setup=setup) for setup in (PRODUCTION, DEVEL)
    }


def printed(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, *arguments, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def choose(*, queue: str = "", ce: str = "") -> None:
    Queue.objects.update(setup=queue)
    ComputingElement.objects.update(setup=ce)


def registration(sample: SampleData, **said: str) -> dict[str, str]:
    ce = sample.queue.ce
    return {"vo": "lhcb", "site": ce.site.name, "ce": ce.name, "queue": sample.queue.name, **said}


def registered(sample: SampleData, *, token: str, **said: str) -> APIClient:
    """Return the client of a pilot that has registered with a token of its site."""
    answer = bearer(token).post("/api/v1/pilots/register/", registration(sample, **said), format="json")
    assert answer.status_code == 201, answer.content
    return bearer(answer.json()["token"])


def gets_only(pilot: APIClient, job: Job, **said: object) -> None:
    assert lease_for(pilot, **said)["job"]["id"] == job.pk
    assert pilot.post("/api/v1/matches/", offer(**said), format="json").status_code == 204


@pytest.mark.parametrize(
    ("places", "token", "agent", "setup"),
    [
        ({}, "", "", PRODUCTION),
        ({"ce": DEVEL}, "", "", DEVEL),
        ({"queue": DEVEL, "ce": PRODUCTION}, "", "", DEVEL),
        ({"queue": PRODUCTION, "ce": DEVEL}, "", "", PRODUCTION),
        ({"queue": OTHER_VOS, "ce": DEVEL}, "", "", DEVEL),
        ({"queue": PRODUCTION}, DEVEL, "", DEVEL),
        ({"queue": PRODUCTION, "ce": PRODUCTION}, PRODUCTION, DEVEL, DEVEL),
        ({"queue": DEVEL}, DEVEL, PRODUCTION, PRODUCTION),
    ],
)
def test_the_innermost_place_that_chooses_a_setup_decides(
    sample: SampleData, jobs: Jobs, places: Mapping[str, str], token: str, agent: str, setup: str
) -> None:
    choose(**places)
    issued = printed("site_token", "LCG.CERN.ch", "--for", "register", *(["--setup", token] if token else []))
    pilot = registered(sample, token=issued, **({"setup": agent} if agent else {}))
    assert pilot.get("/api/v1/pilots/config/").json()["setup"] == setup
    gets_only(pilot, jobs[setup])


@pytest.mark.parametrize("level", [[], ["--site", "LCG.CERN.ch"], ["--site", "LCG.CERN.ch", "--ce", "ce01.cern.ch"]])
def test_a_token_of_a_pilot_may_choose_its_setup(sample: SampleData, jobs: Jobs, level: list[str]) -> None:
    choose(queue=PRODUCTION)
    pilot = bearer(printed("pilot_token", "--vo", "lhcb", *level, "--setup", DEVEL))
    answer = pilot.post("/api/v1/matches/", offer(setup=PRODUCTION), format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_queue")
    assert answer.json()["detail"] == "This pilot has the setup LHCb-Devel; leave setup out of the offer."
    gets_only(pilot, jobs[DEVEL])


def test_the_offer_of_a_pilot_made_by_hand_may_choose(sample: SampleData, jobs: Jobs) -> None:
    choose(queue=PRODUCTION, ce=PRODUCTION)
    pilot = bearer(printed("pilot_token", "--vo", "lhcb"))
    gets_only(pilot, jobs[DEVEL], setup=DEVEL)
    choose(queue=DEVEL)
    other = bearer(printed("pilot_token", "--vo", "lhcb"))
    assert lease_for(other, site="LCG.CERN.ch", ce="ce01.cern.ch", queue="grid", setup=PRODUCTION)["job"]["id"] == (
        jobs[PRODUCTION].pk
    )


def test_a_pilot_of_an_unknown_queue_names_its_setup_where_queues_differ(sample: SampleData, jobs: Jobs) -> None:
    choose(ce=DEVEL)
    pilot = bearer(printed("pilot_token", "--vo", "lhcb", "--site", "LCG.CERN.ch"))
    gets_only(pilot, jobs[DEVEL])
    other = factories.make_ce(name="ce02", site=sample.queue.ce.site)
    factories.make_queue(name="other", ce=other, **factories.LARGE_SLOT)
    answer = pilot.post("/api/v1/matches/", offer(), format="json")
    assert answer.status_code == 204
    assert answer["X-WMS-Why"] == (
        "The queue of this pilot is not known, and pilots of the queues at which it may be have different setups: it "
        "gets no job unless it names its setup. Name site, ce and queue in the offer."
    )
    assert lease_for(pilot, setup=PRODUCTION)["job"]["id"] == jobs[PRODUCTION].pk


def test_the_secret_of_a_director_fixes_the_setup(sample: SampleData, jobs: Jobs) -> None:
    choose(queue=PRODUCTION)
    sent = Pilot.objects.create(vo=sample.vo, queue=sample.queue, setup=DEVEL, submitted_at=NOW)
    issue_secrets([sent], now=timezone.now())
    client = bearer(secret_of(sent))
    body = registration(sample, setup=PRODUCTION)
    answer = client.post("/api/v1/pilots/register/", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_place")
    assert answer.json()["errors"] == {"setup": ["This secret belongs to a pilot of LHCb-Devel."]}
    answer = client.post("/api/v1/pilots/register/", body | {"setup": DEVEL}, format="json")
    gets_only(bearer(answer.json()["token"]), jobs[DEVEL])


def test_a_job_keeps_a_setup_that_its_vo_has_given_up(sample: SampleData, jobs: Jobs, client_of: ClientOf) -> None:
    pilot = factories.make_pilot(vo=sample.vo, queue=sample.queue)
    Pilot.objects.filter(pk=pilot.pk).update(setup=DEVEL)
    VO.objects.filter(pk=sample.vo.pk).update(setups=[PRODUCTION])
    assert lease_for(client_of(pilot))["job"]["id"] == jobs[DEVEL].pk


def test_setups_that_no_vo_has_are_refused(sample: SampleData, jobs: Jobs) -> None:
    wrong = 'lhcb has no setup "LHCb-Devol". Did you mean "LHCb-Devel"?'
    for command in (
        ("pilot_token", "--vo", "lhcb", "--setup", "LHCb-Devol"),
        ("site_token", "LCG.CERN.ch", "--for", "register", "--setup", "LHCb-Devol"),
    ):
        with pytest.raises(CommandError, match=wrong.replace("?", r"\?")):
            printed(*command)
    with pytest.raises(CommandError, match="A setup is for tokens by which pilots register"):
        printed("site_token", "LCG.CERN.ch", "--for", "advertise", "--setup", DEVEL)
    token = bearer(printed("site_token", "LCG.CERN.ch", "--for", "register"))
    answer = token.post("/api/v1/pilots/register/", registration(sample, setup="LHCb-Devol"), format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_setup")
    assert answer.json()["errors"] == {"setup": [wrong]}
    assert Pilot.objects.count() == 1
