"""A node where jobs fail fast is detected as a black hole, gets no jobs for a while, and then gets jobs again."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from matching.models import Match
from matching.services import expiry, leases
from matching.services.black_holes import find_black_holes
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import BlackHole, Pilot
from pilots.queries import jobless_pilots
from pilots.services import exclusions
from pilots.services.exclusions import BlackHoleError
from pilots.services.registration import Registration, register, register_sent
from pilots.services.reports import end_pilot
from resources.domain.enums import SiteTokenPurpose
from resources.models import Queue, SiteToken
from resources.services.site_tokens import issue_site_token
from tests.clock import pass_time, reset_clock
from tests.database.pilots.test_provisioning import sent_pilots
from tests.factories import (
    NOW,
    make_black_hole,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_site,
    make_user,
)
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.services import control
from wms.kernel.db import database_now
from wms.wire.protocol import NO_TAILS, Usage

pytestmark = pytest.mark.django_db

FAILURES = 3


@pytest.fixture(autouse=True)
def clock(settings: Settings) -> Iterator[None]:
    settings.WMS_BLACK_HOLE_FAILURES = FAILURES
    expiry.expire_leases()
    yield
    reset_clock()


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


@pytest.fixture
def queue() -> Queue:
    return make_queue()


def pilot_on(host_name: str, queue: Queue, group: Group) -> Pilot:
    pilot = make_pilot(vo=group.vo, queue=queue)
    pilot.host_name = host_name
    pilot.started_at = database_now()
    pilot.save()
    return pilot


def ask(pilot: Pilot, request_id: UUID | None = None) -> list[Match]:
    offer = OfferRequest(cpu_time_s=300_000)
    found = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return [Match.objects.get(pk=lease.match_id) for lease in found]


def run(pilot: Pilot, owner: User, group: Group, *, exit_code: int | None, takes_s: int = 1, times: int = 1) -> None:
    """Run this many jobs on the pilot, each to its end."""
    for _ in range(times):
        job = make_job(owner=owner, group=group)
        (lease,) = ask(pilot)
        assert lease.job == job
        leases.report_status(lease.pk, status=JobStatus.RUNNING)
        pass_time(seconds=takes_s)
        leases.finish(lease.pk, exit_code=exit_code, minor=None, usage=Usage(), output_sandbox=None)


@pytest.fixture
def good(queue: Queue, group: Group, alice: User) -> Pilot:
    """Return a pilot on a host where Alice's jobs succeed."""
    pilot = pilot_on("good", queue, group)
    run(pilot, alice, group, exit_code=0, times=2)
    return pilot


@pytest.fixture
def bad(good: Pilot, queue: Queue, group: Group, alice: User) -> Pilot:
    """Return a pilot on a host where they have failed so often that it is a black hole."""
    pilot = pilot_on("bad", queue, group)
    run(pilot, alice, group, exit_code=1, times=FAILURES)
    return pilot


def shut_hosts() -> list[str]:
    return list(BlackHole.objects.filter(lifted_at=None).order_by("pk").values_list("host_name", flat=True))


def test_a_black_hole_is_found_and_gets_no_more_jobs(
    good: Pilot, bad: Pilot, group: Group, alice: User, queue: Queue
) -> None:
    beside, elsewhere = pilot_on("bad", queue, group), pilot_on("bad", make_queue(), group)
    assert find_black_holes() == 1
    found = BlackHole.objects.get()
    assert (found.site, found.host_name, found.fetched, found.failed) == (queue.ce.site, "bad", FAILURES, FAILURES)
    assert found.until - found.found_at == timedelta(hours=1)
    assert found.reason.startswith(f"{FAILURES} of the {FAILURES} jobs")

    job = make_job(owner=alice, group=group)
    for pilot in (bad, beside):
        with pytest.raises(BlackHoleError, match="Jobs end badly and fast on bad; it gets none until 20"):
            ask(pilot)
    assert ask(elsewhere)[0].job == job  # of another site
    make_job(owner=alice, group=group)
    assert len(ask(good)) == 1
    assert find_black_holes() == 0


def test_pilots_on_a_black_hole_are_not_counted_by_directors(queue: Queue, group: Group) -> None:
    (pilot,) = sent_pilots(queue, vo=group.vo, host_name="bad", batch_id="b", submitted_at=database_now())
    now = database_now()
    assert sum(found.pilots for found in jobless_pilots(now=now)) == 1
    Pilot.objects.filter(pk=pilot.pk).update(black_hole=make_black_hole())
    assert jobless_pilots(now=now) == []


def test_no_pilot_registers_on_a_black_hole(bad: Pilot, queue: Queue, group: Group) -> None:
    find_black_holes()
    now = database_now()
    place = {"vo": group.vo.name, "site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}
    here, there = Registration(**place, host_name="bad"), Registration(**place, host_name="good")
    (sent,) = sent_pilots(queue, vo=group.vo)
    issue_site_token(queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=now)
    of_site = {"site_id": queue.ce.site_id, "token_id": SiteToken.objects.get().pk}
    before = list(Pilot.objects.order_by("pk").values())
    with pytest.raises(BlackHoleError):
        register(here, **of_site, now=now)
    with pytest.raises(BlackHoleError):
        register_sent(here, pilot_id=sent.pk, now=now)
    assert list(Pilot.objects.order_by("pk").values()) == before
    # The secret is not used up.
    assert register_sent(there, pilot_id=sent.pk, now=now).pilot.status == PilotStatus.RUNNING
    assert register(here, **of_site, now=now + timedelta(hours=2)).token


def test_a_pilot_that_reports_a_black_hole_host_gets_no_jobs_within_a_minute(
    bad: Pilot, group: Group, queue: Queue
) -> None:
    find_black_holes()
    late = pilot_on("", queue, group)
    Pilot.objects.filter(pk=late.pk).update(host_name="bad")
    find_black_holes()
    with pytest.raises(BlackHoleError):
        ask(late)


def test_the_lease_of_an_answer_that_was_lost_is_still_given(bad: Pilot, group: Group, alice: User) -> None:
    make_job(owner=alice, group=group)
    request_id = uuid4()
    leased = ask(bad, request_id)
    find_black_holes()
    make_job(owner=alice, group=group)
    assert ask(bad, request_id) == leased
    leases.finish(leased[0].pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
    with pytest.raises(BlackHoleError):
        ask(bad)


def test_an_expired_black_hole_gets_jobs_and_is_evaluated_anew(
    bad: Pilot, good: Pilot, group: Group, alice: User
) -> None:
    find_black_holes()
    pass_time(minutes=59)
    find_black_holes()
    assert shut_hosts() == ["bad"]
    pass_time(minutes=2)
    assert find_black_holes() == 0
    assert shut_hosts() == []
    assert (BlackHole.objects.get().lifted_at, BlackHole.objects.get().lifted_by) != (None, "somebody")
    run(good, alice, group, exit_code=0)
    run(bad, alice, group, exit_code=1, times=FAILURES - 1)
    assert find_black_holes() == 0
    run(bad, alice, group, exit_code=1)
    assert find_black_holes() == 1
    again = BlackHole.objects.get(lifted_at=None)
    assert again.until - again.found_at == timedelta(hours=2)


def test_a_lifted_black_hole_gets_jobs_again(bad: Pilot, good: Pilot, group: Group, alice: User) -> None:
    find_black_holes()
    pass_time(seconds=1)
    assert exclusions.lift(BlackHole.objects.all(), by="olivia", now=database_now()) == 1
    assert exclusions.lift(BlackHole.objects.all(), by="bob", now=database_now()) == 0
    assert BlackHole.objects.get().lifted_by == "olivia"
    assert find_black_holes() == 0  # what ended before does not count
    run(bad, alice, group, exit_code=0)
    run(bad, alice, group, exit_code=1, times=9 * FAILURES)
    assert find_black_holes() == 1
    again = BlackHole.objects.get(lifted_at=None)
    assert again.until - again.found_at == timedelta(hours=1)


def test_the_only_host_of_several_users_is_found_too(queue: Queue, group: Group) -> None:
    pilot = pilot_on("only", queue, group)
    users = [make_user(groups=[group]) for _ in range(3)]
    for user in users[:2]:
        run(pilot, user, group, exit_code=1, times=2 * FAILURES)
    assert find_black_holes() == 0
    run(pilot, users[2], group, exit_code=1)
    assert find_black_holes() == 1
    assert BlackHole.objects.get().reason.endswith("they are of 3 users, and none like them ran elsewhere")
    make_job(owner=users[0], group=group)
    with pytest.raises(BlackHoleError):
        ask(pilot)


# ---- what is no fault of the node ------------------------------------------------------------------------------------


def test_jobs_of_one_user_that_fail_everywhere_are_no_fault_of_the_nodes(
    good: Pilot, queue: Queue, group: Group
) -> None:
    wrong = make_user(groups=[group])
    pilots = [good, *(pilot_on(f"n{number}", queue, group) for number in range(3))]
    for pilot in pilots:
        run(pilot, wrong, group, exit_code=1, times=FAILURES)
    assert find_black_holes() == 0


def test_jobs_that_fail_after_long_work_are_no_fault_of_the_node(
    good: Pilot, queue: Queue, group: Group, alice: User
) -> None:
    pilot = pilot_on("slow", queue, group)
    run(pilot, alice, group, exit_code=1, takes_s=121, times=FAILURES)
    assert find_black_holes() == 0


def test_jobs_that_were_killed_are_no_fault_of_the_node(good: Pilot, queue: Queue, group: Group, alice: User) -> None:
    pilot = pilot_on("n", queue, group)
    for acknowledged in (True, False) * FAILURES:
        make_job(owner=alice, group=group)
        (lease,) = ask(pilot)
        control.apply_to_one(Action.KILL, lease.job_id, by=alice, now=database_now())
        if acknowledged:
            orders = lease.job.commands.values_list("pk", flat=True)
            leases.heartbeat(lease.pk, usage=Usage(), tails=NO_TAILS, acknowledged=list(orders))
        else:
            leases.finish(lease.pk, exit_code=None, minor=None, usage=Usage(), output_sandbox=None)
    assert find_black_holes() == 0


def test_jobs_that_drained_pilots_hand_back_are_no_fault_of_the_node(
    good: Pilot, queue: Queue, group: Group, alice: User
) -> None:
    for _ in range(FAILURES):
        pilot = pilot_on("n", queue, group)
        make_job(owner=alice, group=group)
        (lease,) = ask(pilot)
        exclusions.drain(Pilot.objects.filter(pk=pilot.pk), reason="", now=database_now())
        leases.finish(lease.pk, exit_code=222, minor=None, usage=Usage(), output_sandbox=None)
        lease.job.refresh_from_db()
        control.apply_to_one(Action.KILL, lease.job_id, by=alice, now=database_now())
    assert find_black_holes() == 0


def test_missing_job_requirements_are_no_fault_of_the_node(
    good: Pilot, queue: Queue, group: Group, alice: User, settings: Settings
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0
    pilot = pilot_on("n", queue, group)
    for _ in range(FAILURES):
        make_job(owner=alice, group=group, software=["root6"])
        (lease,) = ask(pilot)
        leases.finish(
            lease.pk,
            exit_code=222,
            minor="Software is missing on the node: root6",
            usage=Usage(),
            output_sandbox=None,
            job_at_fault=True,
        )
        (elsewhere,) = ask(good)
        assert elsewhere.job == lease.job
        leases.finish(elsewhere.pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
    assert find_black_holes() == 0
    # Nor do they excuse it when it fails other jobs.
    run(pilot, alice, group, exit_code=1, times=FAILURES)
    assert find_black_holes() == 1


@pytest.mark.parametrize("exit_code", [0, 1, 134])
def test_a_payload_that_ran_counts_despite_the_reported_fault(
    queue: Queue, group: Group, alice: User, exit_code: int
) -> None:
    make_job(owner=alice, group=group)
    (lease,) = ask(pilot_on("n", queue, group))
    leases.finish(
        lease.pk, exit_code=exit_code, minor=None, usage=Usage(), output_sandbox=None, job_at_fault=True
    )  # fmt: skip
    assert not Match.objects.get(pk=lease.pk).job_at_fault


# ---- what is -------------------------------------------------------------------------------------------------------


def test_jobs_that_are_handed_back_count_though_they_end_well_elsewhere(
    good: Pilot, queue: Queue, group: Group, alice: User, settings: Settings
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0  # they are to end well within the hour that is looked at
    pilot = pilot_on("n", queue, group)
    for _ in range(FAILURES):
        make_job(owner=alice, group=group)
        (lease,) = ask(pilot)
        leases.finish(lease.pk, exit_code=222, minor="No room on the node", usage=Usage(), output_sandbox=None)
        (elsewhere,) = ask(good)
        assert elsewhere.job == lease.job
        leases.finish(elsewhere.pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
    assert find_black_holes() == 1


def test_pilots_that_die_with_their_jobs_count(good: Pilot, queue: Queue, group: Group, alice: User) -> None:
    for _ in range(FAILURES):
        pilot = pilot_on("n", queue, group)
        make_job(owner=alice, group=group)
        (lease,) = ask(pilot)
        with transaction.atomic():
            end_pilot(pilot.pk, status=PilotStatus.FAILED, reason="killed", now=database_now())
        pass_time(seconds=5)
        assert expiry.expire_leases() == 1
        control.apply_to_one(Action.KILL, lease.job_id, by=alice, now=database_now())
    assert find_black_holes() == 1


# ---- the machinery -------------------------------------------------------------------------------------------------


def test_black_hole_detection_can_be_turned_off(bad: Pilot, settings: Settings) -> None:
    settings.WMS_BLACK_HOLE_FAILURES = 0
    assert find_black_holes() == 0


def test_leases_that_ended_long_ago_do_not_count(bad: Pilot) -> None:
    pass_time(minutes=61)
    assert find_black_holes() == 0


def test_a_pilot_of_no_queue_or_host_is_no_node(good: Pilot, group: Group, alice: User, queue: Queue) -> None:
    by_hand = make_pilot(vo=group.vo)
    Pilot.objects.filter(pk=by_hand.pk).update(host_name="bad")
    run(by_hand, alice, group, exit_code=1, times=FAILURES)
    run(pilot_on("", queue, group), alice, group, exit_code=1, times=FAILURES)
    assert find_black_holes() == 0


def test_a_host_is_one_black_hole_at_a_time() -> None:
    site = make_site()
    made = make_black_hole(site=site)
    now = database_now()
    assert not exclusions.shut(
        BlackHole(site=site, host_name=made.host_name, found_at=now, until=now + timedelta(hours=1))
    )
    with pytest.raises(IntegrityError, match="a_host_is_one_black_hole_at_a_time"), transaction.atomic():
        make_black_hole(site=site)


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ({"until": NOW}, "black_hole_ends_after_it_was_found"),
        ({"failed": 99}, "black_hole_failed_no_more_than_it_fetched"),
    ],
)
def test_invalid_black_holes_are_refused_by_constraints(change: dict[str, object], constraint: str) -> None:
    found = make_black_hole()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        BlackHole.objects.filter(pk=found.pk).update(**change)


def test_when_nothing_fails_hosts_are_counted_in_one_statement(good: Pilot) -> None:
    with CaptureQueriesContext(connection) as captured:
        find_black_holes()
    asked = [query["sql"] for query in captured if "matching_match" in query["sql"]]
    assert len(asked) == 1
    assert not any("jobs_jobhistory" in statement for statement in asked)


def test_hosts_of_other_sites_with_the_same_name_keep_their_jobs(bad: Pilot, group: Group) -> None:
    twin = pilot_on("bad", make_queue(ce=make_ce()), group)
    find_black_holes()
    twin.refresh_from_db()
    bad.refresh_from_db()
    assert (twin.black_hole, bad.black_hole) == (None, BlackHole.objects.get())
