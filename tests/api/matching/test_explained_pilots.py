"""Pilots in explain: those that run, those that are sent, and reasons why none are sent."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from pilots.backends.interface import BatchRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import BlackHole, CEHealth, Director, DirectorRun, Pilot, PilotSecret
from resources.models import ComputingElement, Queue
from taskqueues.models import TaskQueue
from taskqueues.services import priorities
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import explained, of_alice
from tests.clock import pass_time, stop_clock
from wms.accounts.models import VO
from wms.kernel.db import database_now

NOW = factories.NOW
LATER = NOW + timedelta(minutes=20)
UNTIL = f"{LATER:%F %H:%M} UTC"
NOBODY = "It fits 1 of 1 queue, but no pilot is there and none is sent at present: "


@pytest.fixture
def alice(sample: SampleData, client_of: ClientOf, clock: None) -> APIClient:
    """Return Alice's client; directors are at work, and there is one CE with free room and without pilots."""
    pass_time(seconds=(NOW - database_now()).total_seconds())
    stop_clock()
    Pilot.objects.all().delete()
    DirectorRun.objects.create(pk=1, ran_at=NOW, running_since=NOW)
    CEHealth.objects.create(ce=sample.queue.ce, asked_at=NOW, free_slots=10)
    return client_of(sample.alice)


def summary(client: APIClient, sample: SampleData, **description: Any) -> str:
    said: str = explained(client, of_alice(sample, **description))["summary"]
    return said


def sent(sample: SampleData, *, ended: PilotStatus | None = None, **columns: Any) -> Pilot:
    """Return a pilot that a director has sent to the queue."""
    pilot = factories.make_pilot(vo=sample.vo, queue=sample.queue, status=ended or PilotStatus.WAITING)
    PilotSecret.objects.create(pilot=pilot, digest=f"{pilot.pk:032d}".encode(), expires_at=LATER)
    Pilot.objects.filter(pk=pilot.pk).update(submitted_at=NOW, batch_id="1", **columns)
    return Pilot.objects.get(pk=pilot.pk)


def test_a_pilot_without_a_job_soon_asks_for_one(sample: SampleData, alice: APIClient) -> None:
    factories.make_pilot(vo=sample.vo, queue=sample.queue)
    assert summary(alice, sample).endswith("; 1 of 1 pilot there has no job and asks for one soon.")


def test_jobs_that_are_next_in_line_wait_for_busy_pilots(sample: SampleData, alice: APIClient) -> None:
    def summary_with(*others: dict[str, Any]) -> str:
        for description in others:
            of_alice(sample, **description)
        priorities.recalculate()
        return str(explained(alice, job)["summary"])

    job = of_alice(sample, cpu_time_s=5000)
    expected = "Next in line at 1 queue; 1 pilot runs there, busy with other jobs. No estimate yet."
    factories.make_match(pilot=factories.make_pilot(vo=sample.vo, queue=sample.queue))
    # Neither a task queue that is hardly ever drawn nor one of shorter jobs is before it.
    assert summary_with() == summary_with({"cpu_time_s": 5000, "tags": ["gpu"], "priority": 0}) == expected
    assert summary_with({"cpu_time_s": 500}) == expected
    VO.objects.update(any_segment_fraction=0.1)
    assert summary_with().startswith("In line at 1 queue, first of lhcb, with 100 % of the priorities of its CPU seg")
    VO.objects.update(any_segment_fraction=0)
    idle = factories.make_pilot(vo=sample.vo, queue=sample.queue)
    assert summary_with() == "Next in line at 1 queue; 1 of 2 pilots there has no job and asks for one soon."
    idle.delete()
    assert summary_with() == expected
    assert "first of lhcb, with 50 % of" in summary_with({"cpu_time_s": 5000, "memory_mb": 1000})


def test_pilots_on_their_way_are_counted_if_they_may_take_the_job(sample: SampleData, alice: APIClient) -> None:
    for _ in range(2):
        sent(sample)
    assert summary(alice, sample).endswith("; 2 pilots are on the way.")
    roomy, small = (asdict(BatchRequest(queue="grid", processors=cores)) for cores in (1, 8))
    Pilot.objects.update(slot=roomy)
    Pilot.objects.filter(pk=Pilot.objects.order_by("pk")[0].pk).update(slot=small)
    Queue.objects.update(processors=8)
    assert summary(alice, sample, processors=4).endswith("; 1 pilot is on the way.")


@pytest.mark.parametrize(
    "columns",
    [
        {"drained_at": NOW},
        {"revoked_at": NOW},
        {"status": PilotStatus.STALLED},
        {"vo": "another"},
        {"group": "another"},
        {"queue": None},
    ],
)
def test_pilots_that_cannot_run_the_job_are_not_counted(
    sample: SampleData, alice: APIClient, columns: dict[str, Any]
) -> None:
    others: dict[str, Any] = {"vo": factories.make_vo(), "group": factories.make_group(vo=sample.vo)}
    sent(sample, **{name: others[name] if value == "another" else value for name, value in columns.items()})
    assert summary(alice, sample).endswith("; no pilot is there now.")


@pytest.mark.parametrize(
    ("health", "why"),
    [
        (
            {"failures": 3, "trouble": "sbatch: Invalid account", "ask_after": LATER, "send_after": LATER},
            f"computing element ce01.cern.ch fails: sbatch: Invalid account; it is queried again at {UNTIL}.",
        ),
        (
            {"send_after": LATER, "trouble": "Its last pilots all failed"},
            f"the last pilots at computing element ce01.cern.ch all failed; others are sent from {UNTIL} on.",
        ),
        (
            {"free_slots": 0},
            f"computing element ce01.cern.ch had no free slot when it was last queried, at {NOW:%F %H:%M} UTC.",
        ),
        (
            {"asked_at": None, "free_slots": None},
            "computing element ce01.cern.ch has not reported yet how many pilots it can take.",
        ),
        (
            {"asked_at": NOW - timedelta(days=1)},
            f"computing element ce01.cern.ch has not been queried since {NOW - timedelta(days=1):%F %H:%M} UTC.",
        ),
    ],
)
def test_a_computing_element_without_pilots_is_named_as_the_cause(
    sample: SampleData, alice: APIClient, health: dict[str, Any], why: str
) -> None:
    CEHealth.objects.update(**health)
    assert summary(alice, sample) == NOBODY + why
    # Of several that fit, one that takes pilots is enough.
    other = factories.make_queue(name="other", ce=factories.make_ce(name="ce02", site=sample.queue.ce.site))
    silent = "computing element ce02 has not reported yet how many pilots it can take."
    assert summary(alice, sample) == (
        "It fits 2 of 2 queues, but no pilot is there and none is sent at present: "
        f"at 1 of them, {why.removesuffix('.')}; at 1 of them, {silent}"
    )
    factories.make_queue(name="third", ce=other.ce)
    assert f"at present: at 2 of them, {silent.removesuffix('.')}; at 1 of them, {why}" in summary(alice, sample)
    CEHealth.objects.create(ce=other.ce, asked_at=NOW, free_slots=1)
    assert summary(alice, sample).startswith("It fits 3 of 3 queues and waits for a pilot there")


@pytest.mark.parametrize("there", ["asked", "never asked", "directors stand still", "other middleware"])
def test_a_queue_whose_pilots_the_site_starts_is_named(sample: SampleData, alice: APIClient, there: str) -> None:
    Queue.objects.update(max_waiting_pilots=0)
    if there == "never asked":
        CEHealth.objects.update(asked_at=None, free_slots=None)
    elif there == "directors stand still":
        DirectorRun.objects.all().delete()
    wanted = {"grid_middlewares": ["ARC"]} if there == "other middleware" else {}
    why = (
        f"the site itself starts the pilots of queue {sample.queue.name} of ce01.cern.ch, and none that could "
        "take such jobs is there."
    )
    assert summary(alice, sample, **wanted) == NOBODY + why
    # Another queue of the same computing element gets pilots from directors.
    CEHealth.objects.update(asked_at=NOW, free_slots=10)
    factories.make_queue(name="other", ce=sample.queue.ce)
    if there in {"asked", "never asked"}:
        assert summary(alice, sample).startswith("It fits 2 of 2 queues and waits for a pilot there")


def test_computing_elements_that_fail_are_one_cause(sample: SampleData, alice: APIClient) -> None:
    site = sample.queue.ce.site
    CEHealth.objects.update(failures=1, trouble="ssh: no route to host", ask_after=LATER)
    for name in ("ce02", "ce03"):
        ce = factories.make_queue(name=name, ce=factories.make_ce(name=name, site=site)).ce
        CEHealth.objects.create(ce=ce, failures=1, trouble=f"ssh: no route to {name}", ask_after=LATER)
    silent = factories.make_queue(name="other", ce=factories.make_ce(name="ce04", site=site)).ce
    assert summary(alice, sample) == (
        "It fits 4 of 4 queues, but no pilot is there and none is sent at present: at 3 of them, 3 computing elements "
        f"fail (ce01.cern.ch, ce02, ce03), the first with: ssh: no route to host; it is queried again at {UNTIL}; "
        f"at 1 of them, computing element {silent} has not reported yet how many pilots it can take."
    )


def test_error_messages_of_a_computing_element_are_shortened(sample: SampleData, alice: APIClient) -> None:
    CEHealth.objects.update(failures=1, trouble="Permission denied.\n" + "é" * 400)
    said = summary(alice, sample)
    assert f"fails: Permission denied. {'é' * 181}…." in said


def test_full_queues_are_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    for limit, words in (("max_waiting_pilots", "as many pilots wait as may (1)"), ("max_pilots", "all the pilots")):
        Queue.objects.update(max_waiting_pilots=10, max_pilots=10)
        Queue.objects.update(**{limit: 1})
        others = factories.make_pilot(vo=factories.make_vo(), queue=sample.queue, status=PilotStatus.WAITING)
        said = summary(alice, sample)
        assert said.startswith(NOBODY)
        assert words in said
        others.delete()


def test_missing_directors_are_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    elsewhere = Director.objects.create(name="elsewhere")
    elsewhere.sites.add(factories.make_site())
    Director.objects.create(name="farm", job_types=["MCSimulation"])
    assert summary(alice, sample) == (
        f"{NOBODY}no director sends pilots to LCG.CERN.ch for such jobs: farm only for jobs of the type MCSimulation."
    )
    assert "waits for a pilot" in summary(alice, sample, job_type="MCSimulation")
    Director.objects.filter(name="farm").delete()
    assert summary(alice, sample) == f"{NOBODY}no director sends pilots to LCG.CERN.ch."
    DirectorRun.objects.update(ran_at=NOW - timedelta(days=1))
    assert f"have not run since {NOW - timedelta(days=1):%F %H:%M} UTC." in summary(alice, sample)
    DirectorRun.objects.all().delete()
    assert summary(alice, sample) == f"{NOBODY}the directors, which send pilots, have not run yet."


def test_what_directors_require_of_jobs_is_named(sample: SampleData, alice: APIClient) -> None:
    Queue.objects.update(gpus=1)
    Director.objects.create(name="devel", setup="LHCb-Devel")
    Director.objects.create(name="farm", requirements='GPUs > 0 && VO == "lhcb"')
    Director.objects.create(name="never", requirements="false")
    assert summary(alice, sample) == (
        f"{NOBODY}no director sends pilots to LCG.CERN.ch for such jobs: devel only for jobs of the setup LHCb-Devel, "
        "farm only for jobs that meet its requirements on GPUs and VO, never only for jobs that meet its requirements."
    )
    assert "waits for a pilot" in summary(alice, sample, gpus=1)
    assert "waits for a pilot" in summary(alice, sample, setup="LHCb-Devel")
    # A queue that chooses the setup itself is not the director's to choose for.
    Queue.objects.update(setup="LHCb-Production")
    assert "waits for a pilot" in summary(alice, sample)


@pytest.mark.parametrize(("of_pilot", "of_queue"), [("LHCb-Production", ""), ("", ""), ("", "LHCb-Production")])
def test_pilots_of_another_setup_are_not_waited_for(
    sample: SampleData, alice: APIClient, of_pilot: str, of_queue: str
) -> None:
    idle = factories.make_pilot(vo=sample.vo, queue=sample.queue)
    Pilot.objects.update(setup=of_pilot)
    Queue.objects.update(setup=of_queue)
    assert summary(alice, sample).endswith("; 1 of 1 pilot there has no job and asks for one soon.")
    Pilot.objects.filter(pk=idle.pk).update(setup=of_pilot or "LHCb-Production")
    Queue.objects.update(setup="")
    assert summary(alice, sample, setup="LHCb-Devel").endswith("; no pilot is there now.")
    Queue.objects.update(max_waiting_pilots=0)
    assert "and none that could take such jobs is there" in summary(alice, sample, setup="LHCb-Devel")
    Pilot.objects.update(setup="LHCb-Devel")
    assert summary(alice, sample, setup="LHCb-Devel").endswith("; 1 of 1 pilot there has no job and asks for one soon.")


def test_unserved_computing_element_types_are_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    ComputingElement.objects.update(type="cream")
    assert "no computing element of the type cream, as ce01.cern.ch is" in summary(alice, sample)


def test_pilots_without_a_match_are_named_as_the_cause_for_jobs_that_waited(
    sample: SampleData, alice: APIClient
) -> None:
    job = of_alice(sample)
    for _ in range(10):
        sent(sample, ended=PilotStatus.DONE, nothing_at=NOW)
    TaskQueue.objects.update(created_at=NOW - timedelta(minutes=5))
    said = explained(alice, job)["summary"]
    assert said.startswith(f"{NOBODY}nearly all of the last pilots in queue grid of ce01.cern.ch found no job that")
    # What came to wait later is none of their business.
    TaskQueue.objects.update(created_at=NOW)
    assert "waits for a pilot there" in explained(alice, job)["summary"]


def test_another_grid_middleware_is_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    only = f"{NOBODY}pilots for these jobs are sent only to computing elements of the grid middleware ARC"
    said = summary(alice, sample, grid_middlewares=["ARC"])
    assert said.startswith(f"{only}, and no site that serves lhcb has one")
    other = factories.make_ce(name="ce02", site=sample.queue.ce.site)
    ComputingElement.objects.filter(pk=other.pk).update(middleware="arc")
    said = summary(alice, sample, grid_middlewares=["ARC"])
    assert said.startswith(f"{only}, and ce01.cern.ch is of local")
    ComputingElement.objects.filter(pk=sample.queue.ce_id).update(middleware="Arc")
    assert "waits for a pilot there" in summary(alice, sample, grid_middlewares=["ARC"])


def test_stalled_pilots_are_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    sent(sample, ended=PilotStatus.STALLED, ended_at=NOW, stalled_at=NOW)
    until = f"{NOW + timedelta(minutes=10):%F %H:%M} UTC"
    assert summary(alice, sample).startswith(
        f"{NOBODY}the last pilots in queue grid of ce01.cern.ch did not start in time; the next is sent at {until};"
    )


def test_black_holes_are_named_as_the_cause(sample: SampleData, alice: APIClient) -> None:
    holes = [factories.make_black_hole(site=sample.queue.ce.site, host_name=name) for name in ("wn1", "wn2", "wn3")]
    factories.make_black_hole(site=factories.make_site(), host_name="elsewhere")
    BlackHole.objects.update(found_at=NOW, until=LATER)
    BlackHole.objects.filter(pk=holes[2].pk).update(lifted_at=NOW)
    sent(sample, status=PilotStatus.RUNNING, started_at=NOW, black_hole=holes[0])
    nodes = f"2 nodes there, wn1, wn2, get no jobs until {UNTIL} because jobs fail there at once."
    assert summary(alice, sample).endswith(f"; no pilot is there now; {nodes}")
    sent(sample)
    assert summary(alice, sample).endswith(f"; 1 pilot is on the way; {nodes}")
    sent(sample, status=PilotStatus.RUNNING, started_at=NOW)
    assert "nodes" not in summary(alice, sample)


@pytest.mark.parametrize(
    ("status", "columns", "words"),
    [
        (
            PilotStatus.FAILED,
            {"status_reason": "The node is not fit: cvmfs: not mounted"},
            "failed at {at}: The node is not fit: cvmfs: not mounted.",
        ),
        (PilotStatus.ABORTED, {"status_reason": ""}, "failed before it started at {at}."),
        (PilotStatus.LOST, {"status_reason": "Silent for 2.0 h"}, "fallen silent at {at}: Silent for 2.0 h."),
        (
            PilotStatus.STALLED,
            {"status_reason": "Not started within 6.0 h", "ended_at": NOW},
            "been killed because it waited too long at {at}: Not started within 6.0 h.",
        ),
    ],
)
def test_the_end_of_the_last_pilot_is_shown(
    sample: SampleData, alice: APIClient, status: PilotStatus, columns: dict[str, str], words: str
) -> None:
    sent(sample, ended=status, **columns)
    at = f"{NOW:%F %H:%M} UTC"
    assert summary(alice, sample).endswith(f"; no pilot is there now; the last pilot there has {words.format(at=at)}")


def test_the_last_empty_match_names_its_condition(sample: SampleData, alice: APIClient) -> None:
    sent(sample, ended=PilotStatus.DONE, nothing_at=NOW, nothing_left={"site": 3, "memory": 0, "disk": 0})
    assert "was given no job: none was left after the condition memory." in summary(alice, sample)
    sent(sample, ended=PilotStatus.DONE, matched_at=NOW)  # one that had a job says nothing
    assert summary(alice, sample).endswith("; no pilot is there now.")


def test_pilots_of_other_vos_are_not_shown(sample: SampleData, alice: APIClient) -> None:
    pilot = sent(sample, ended=PilotStatus.FAILED, status_reason="secret of atlas")
    Pilot.objects.filter(pk=pilot.pk).update(vo=factories.make_vo())
    assert "secret" not in summary(alice, sample)


def test_more_queues_and_pilots_need_no_more_queries(sample: SampleData, alice: APIClient) -> None:
    job = of_alice(sample)
    CEHealth.objects.update(free_slots=0)
    with CaptureQueriesContext(connection) as few:
        explained(alice, job)
    for number in range(30):
        queue = factories.make_queue(ce=factories.make_ce(name=f"more{number}", site=sample.queue.ce.site))
        factories.make_pilot(vo=sample.vo, queue=queue, status=PilotStatus.FAILED)
    with CaptureQueriesContext(connection) as many:
        explained(alice, job)
    assert len(many) == len(few)
