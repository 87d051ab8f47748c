"""Changes by a file that stop jobs: refused until they are confirmed, and said where nothing waits or runs."""

import pytest

from matching.services.throttles import advertise
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_numbers
from resources.models import Site
from taskqueues.models import Limit
from tests.database.configuration.configuring import apply, problems_of
from tests.factories import make_group, make_job, make_vo
from wms.accounts.models import Group

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

CLOSED = "limits:\n- {scope: {vo: lhcb}, running: 9}\n- {scope: {group: lhcb_user}, running: 0}\n"
SAYS = "The limit on the group lhcb_user lets no job start. 0 jobs run; 1 job waits."
REPEAT = "If that is meant, repeat the command with --confirm."


@pytest.fixture
def waiting() -> None:
    make_job(group=make_group(name="lhcb_user", vo=make_vo(name="lhcb")))


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_limit_that_stops_waiting_jobs_is_refused_until_confirmed(*, dry_run: bool) -> None:
    assert problems_of(CLOSED, dry_run=dry_run) == [f"line 3: limits[1]: {SAYS} {REPEAT}"]
    assert not Limit.objects.exists()
    result = apply(CLOSED, dry_run=dry_run, confirmed=True)
    assert [str(warning) for warning in result.warnings] == [f"line 3: limits[1]: {SAYS}"]
    assert Limit.objects.count() == (0 if dry_run else 2)


@pytest.mark.usefixtures("waiting")
def test_a_stored_limit_is_not_asked_about_again() -> None:
    apply(CLOSED, confirmed=True)
    assert apply(CLOSED).warnings == ()
    assert apply(CLOSED.replace("9", "8")).warnings == ()
    assert apply("limits: []").warnings == ()


def test_a_limit_that_stops_nothing_yet_is_stored_with_a_warning() -> None:
    make_group(name="lhcb_user", vo=make_vo(name="lhcb"))
    (warning,) = apply(CLOSED).warnings
    assert warning.sentence == "The limit on the group lhcb_user lets no job start. 0 jobs run; 0 jobs wait."
    assert Limit.objects.count() == 2


@pytest.mark.usefixtures("waiting")
def test_a_limit_on_a_type_that_no_job_has_is_stored_with_a_warning() -> None:
    (warning,) = apply("limits: [{scope: {job_type: Usr}, running: 5}]").warnings
    assert warning.sentence == 'No waiting job has the type "Usr". Did you mean "User"? The limit is on nobody.'


@pytest.mark.usefixtures("waiting")
def test_a_priority_of_zero_is_refused_until_confirmed() -> None:
    text = "groups: [{name: lhcb_user, vo: lhcb, priority: 0}]"
    (problem,) = problems_of(text)
    assert "No job of the group lhcb_user starts: a priority of 0 gives it no share. 1 job waits. If that" in problem
    assert Group.objects.get(name="lhcb_user").priority > 0
    apply(text, confirmed=True)
    assert Group.objects.get(name="lhcb_user").priority == 0
    assert apply(text).warnings == ()


def test_a_throttle_that_closes_its_site_is_refused_until_confirmed() -> None:
    def text(most: int) -> str:
        return f"sites: [{{name: A, throttle: {{policy: level0, max_submitting_jobs: {most}}}}}]"

    apply(text(0))
    apply(text(5))
    advertise(Site.objects.get().pk, of_numbers({SUBMITTING: 2, GATHERING: 0, CURRENT: 9}))
    (problem,) = problems_of(text(2))
    assert "The throttle closes the site A at once. The site advertised CurrentSubmittingJobs = 2" in problem
    assert Site.objects.get().max_submitting_jobs == 5
    assert len(apply(text(2), confirmed=True).warnings) == 1
    # Closed already.
    assert apply(text(1)).warnings == ()


def test_an_expression_that_nothing_makes_true_is_refused() -> None:
    (problem,) = problems_of("sites: [{name: A, throttle: {policy: custom, requirements: '1 > 2 && CurMatches < 5'}}]")
    assert problem.endswith(
        "requirements: TRUE for no advertisement and no job, so no job would ever start; ban the site instead"
    )


def test_a_ban_that_stops_waiting_jobs_is_refused_until_confirmed() -> None:
    apply("sites: [{name: A, ces: [{name: c, type: local}]}]")
    ban = "sites: [{name: A, status: {state: banned, reason: storage is moved}, ces: [{name: c, type: local}]}]"
    assert [str(each) for each in apply(ban, dry_run=True).warnings] == [
        "line 1: sites[0]: No further job starts at site A. 0 jobs run there; 0 jobs wait that can run nowhere else."
    ]
    make_job(sites=["A"])
    (problem,) = problems_of(ban)
    assert "site A. 0 jobs run there; 1 job waits that can run nowhere else. If that is meant" in problem
    assert Site.objects.get().state == "active"
    assert len(apply(ban, confirmed=True).warnings) == 1
    assert apply(ban.replace("banned", "draining")).warnings == ()  # closed already


def test_a_site_that_no_longer_serves_the_vo_of_waiting_jobs_is_confirmed() -> None:
    make_vo(name="atlas")
    apply("sites: [{name: A}]")
    make_job(group=make_group(name="lhcb_user", vo=make_vo(name="lhcb")), sites=["A"])
    text = "sites: [{name: A, vos: [atlas]}]"
    (problem,) = problems_of(text)
    assert "The site A no longer serves the VO lhcb. 1 job waits that can run nowhere else. If that" in problem
    assert len(apply(text, confirmed=True).warnings) == 1
    assert apply("sites: [{name: A, vos: []}]").warnings == ()


def test_parameters_of_a_vo_that_the_site_does_not_serve_are_refused() -> None:
    for name in ("atlas", "lhcb"):
        make_vo(name=name)
    ce = "ces: [{name: c, type: local, vo_parameters: {atlas: {Memory: 5}}}]"
    assert problems_of(f"sites: [{{name: A, vos: [lhcb], {ce}}}]") == [
        'line 1: sites[0].ces[0].vo_parameters: the site serves no VO "atlas".'
    ]
    apply(f"sites: [{{name: A, {ce}}}]")
    apply(f"sites: [{{name: A, vos: [lhcb], {ce}}}]")  # stored before


def test_a_new_parameter_whose_name_is_like_a_known_one_is_refused_until_confirmed() -> None:
    make_vo(name="lhcb")
    apply("sites: [{name: A, parameters: {Memory: 5}}]")
    text = "sites: [{name: B, ces: [{name: c, type: local, vo_parameters: {lhcb: {Memry: 5, Tier: 2}}}]}]"
    (problem,) = problems_of(text)
    assert 'place has the parameter "Memry". Did you mean "Memory"? No job that waits reads it. If that' in problem
    assert len(apply(text, confirmed=True).warnings) == 1
    assert apply(text).warnings == ()


@pytest.mark.usefixtures("waiting")
def test_job_types_of_a_queue_that_no_waiting_job_has_are_stored_with_a_warning() -> None:
    text = "sites: [{name: A, ces: [{name: c, type: local, queues: [{name: grid, cpu_time_s: 9, job_types: [TYPE]}]}]}]"
    (warning,) = apply(text.replace("TYPE", "Usr")).warnings
    assert warning.sentence.startswith("No waiting job has a type that the queue grid takes: Usr. Did you mean")
    assert apply(text.replace("TYPE", "Usr")).warnings == ()
    assert apply(text.replace("TYPE", "User")).warnings == ()


@pytest.mark.usefixtures("waiting")
def test_values_that_leave_waiting_jobs_without_a_queue_are_refused_until_confirmed() -> None:
    text = "sites: [{name: A, ces: [{name: c, type: local, queues: [{name: grid, cpu_time_s: TIME}]}]}]"
    apply(text.replace("TIME", "300000"))
    narrower = text.replace("TIME", "1")
    (problem,) = problems_of(narrower)
    says = (
        "The queue grid of computing element c at site A no longer fits jobs that fit nowhere else. 1 job waits that "
        "can run nowhere else."
    )
    assert says in problem
    assert REPEAT in problem
    (warning,) = apply(narrower, confirmed=True).warnings
    assert warning.sentence == says
    assert apply(narrower).warnings == ()


def test_a_platform_that_runs_fewer_others_is_refused_until_confirmed() -> None:
    make_job(group=make_group(name="lhcb_user", vo=make_vo(name="lhcb")), platforms=["x86_64-el8"])
    queue = "{name: grid, cpu_time_s: 300000, platforms: [x86_64-el9]}"
    apply(
        "platforms: {x86_64-el9: [x86_64-el8]}\n"
        f"sites: [{{name: A, ces: [{{name: c, type: local, queues: [{queue}]}}]}}]"
    )
    fewer = "platforms: {x86_64-el9: [nothing]}"
    (problem,) = problems_of(fewer)
    assert "The platform x86_64-el9 no longer fits jobs that fit nowhere else. 1 job waits" in problem
    assert len(apply(fewer, confirmed=True).warnings) == 1
