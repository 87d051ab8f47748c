"""A job whose software one node lacks, run by real pilots: it is matched elsewhere, and not retried at once."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from matching.models import Match
from matching.services.black_holes import find_black_holes
from pilots.models import BlackHole
from resources.domain.enums import SiteTokenPurpose
from resources.models import Queue
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent
from tests.end_to_end.test_agent import SampleData, sample
from wms.jobs.models import JobHistory

__all__ = ["sample"]

pytestmark = pytest.mark.django_db(transaction=True)

PROGRAM = "wms-test-analysis6"


@pytest.fixture
def pass_time(settings: Settings) -> Iterator[Callable[[int], None]]:
    """Return a function that advances the database's clock for all connections."""
    settings.WMS_RESCHEDULE_DELAY_S = 60
    passed = 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc, pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'wms_now'")
        body, definition = cursor.fetchone()

    def pass_time(seconds: int) -> None:
        nonlocal passed
        passed += seconds
        later = f"SELECT ({body.strip().rstrip(';')}) + make_interval(secs => {passed})"
        with connection.cursor() as cursor:
            cursor.execute(definition.replace(body, later))

    yield pass_time
    with connection.cursor() as cursor:
        cursor.execute(definition)


@pytest.fixture
def node(sample: SampleData, tmp_path: Path) -> Callable[..., RunningAgent]:
    """Return a function that runs a pilot on a node of a queue until it gets no job; others have the software."""

    def node(queue: Queue, *, software: bool) -> RunningAgent:
        site, ce = queue.ce.site, queue.ce
        secret = issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        (programs / PROGRAM).write_text("#!/bin/sh\necho found\n")
        (programs / PROGRAM).chmod(0o755)
        place = ["--vo", "lhcb", "--site", str(site), "--ce", str(ce), "--queue", str(queue), "--show", str(programs)]
        path = f"{programs}:/usr/bin:/bin" if software else "/usr/bin:/bin"
        directory = tmp_path / f"node-{queue.pk}"
        directory.mkdir(exist_ok=True)
        with RunningAgent(sample.url, directory, *place, token=secret, environment={"PATH": path}) as agent:
            assert agent.wait() == 0, agent.log
        return agent

    return node


def test_a_job_that_a_node_gave_back_runs_on_a_node_that_has_its_software(
    sample: SampleData, node: Callable[..., RunningAgent], pass_time: Callable[[int], None], settings: Settings
) -> None:
    settings.WMS_BLACK_HOLE_FAILURES = 1
    ce = factories.make_ce(name="ce02", site=factories.make_site(name="LCG.Other.org", vos=[sample.vo]))
    other = factories.make_queue(name="grid", ce=ce)
    job_id = sample.submit(executable=PROGRAM, software=[PROGRAM])

    node(sample.queue, software=False)

    job = sample.ask(f"/api/v1/jobs/{job_id}/")
    assert job["status"] == "Waiting"
    assert job["minor_status"].startswith(f"Software is missing on the node: {PROGRAM}; waits until ")
    assert job["minor_status"].endswith(" UTC, then elsewhere than LCG.CERN.ch/ce01/grid first")
    pass_time(60)
    node(sample.queue, software=False)
    assert Match.objects.count() == 1
    node(other, software=True)
    assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Done"
    assert sample.output(job_id)["std.out"] == "found\n"
    assert [match.job_at_fault for match in Match.objects.order_by("leased_at")] == [True, False]
    assert find_black_holes() == 0


def test_with_one_node_the_attempts_are_spaced_and_the_node_is_no_black_hole(
    sample: SampleData, node: Callable[..., RunningAgent], pass_time: Callable[[int], None], settings: Settings
) -> None:
    settings.WMS_BLACK_HOLE_FAILURES = 1
    job_id = sample.submit(executable=PROGRAM, software=[PROGRAM])
    for attempts, delay_s in enumerate((60, 120, 240), start=1):
        node(sample.queue, software=False)
        assert Match.objects.filter(job=job_id).count() == attempts
        pass_time(delay_s)
    node(sample.queue, software=False)
    assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Failed"
    matched = JobHistory.objects.filter(job=job_id, status="Matched").order_by("pk")
    times = list(matched.values_list("changed_at", flat=True))
    waited = [(later - before).total_seconds() for before, later in pairwise(times)]
    assert [between >= least for between, least in zip(waited, (60, 120, 240), strict=True)] == [True] * 3
    find_black_holes()
    assert not BlackHole.objects.exists()
