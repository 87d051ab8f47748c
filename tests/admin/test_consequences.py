"""Forms whose row would stop jobs: what is said before anything is saved, and what is saved when it is confirmed."""

from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from matching.services.throttles import advertise
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_numbers
from resources.models import Platform, Queue, Site
from taskqueues.models import Limit
from tests.admin.conftest import NO_MEMBERSHIPS, RowsOfVO, Shared, add, change, errors_of
from tests.admin.test_resources import of_queue, of_site
from tests.factories import make_job, make_queue
from wms.accounts.models import SecurityEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

ASKED = ["Nothing was saved. Tick what is meant, and save again."]


def boxes(client: Client, address: str, fields: dict[str, Any]) -> dict[str, str]:
    """Return {sentence to confirm: the words beside its box} of the answer to a form that is not saved."""
    answer = client.post(address, fields)
    assert errors_of(answer) == {"confirmed": ASKED}
    field = answer.context["adminform"].form.fields["confirmed"]
    page = answer.content.decode()
    assert page.count('name="confirmed"') == len(field.choices)
    return dict(field.choices)


def is_saved(client: Client, address: str, fields: dict[str, Any]) -> bool:
    return client.post(address, fields).status_code == 302


# ---- Limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "bounds", "says"),
    [
        ("vo", {"running": "0"}, "The limit on the VO lhcb lets no job start. 1 job runs; 2 jobs wait."),
        (
            "group",
            {"running": "1"},
            "The limit on the group lhcb_user lets no job start while 1 or more of them run. 1 job runs; 2 jobs wait.",
        ),
        (
            "vo",
            {"cpu_s_per_day": "0"},
            "The limit on the VO lhcb lets no job start. Its jobs have used 0 s of CPU time; 2 jobs wait.",
        ),
        ("user", {"waiting": "0"}, "The limit on the user lhcb_member refuses every further job. 2 jobs wait."),
        (
            "group",
            {"waiting": "2"},
            "The limit on the group lhcb_user refuses every further job while 2 or more of them wait. 2 jobs wait.",
        ),
        (
            "site",
            {"running": "0"},
            (
                "The limit on all at the site lhcb.org lets no job start. 1 job runs; 1 job waits that can run "
                "nowhere else."
            ),
        ),
        (
            "ce",
            {"running": "0"},
            (
                "The limit on all at the CE ce.lhcb.org lets no job start. 0 jobs run; 0 jobs wait that can run "
                "nowhere else."
            ),
        ),
    ],
)
def test_a_limit_that_leaves_no_room_is_saved_when_that_is_confirmed(
    operator: Client, mine: RowsOfVO, scope: str, bounds: dict[str, str], says: str
) -> None:
    Limit.objects.all().delete()
    make_job(owner=mine.member, group=mine.group, sites=["lhcb.org"])
    rows: dict[str, Model] = {
        "vo": mine.vo,
        "group": mine.group,
        "user": mine.member,
        "site": mine.site,
        "ce": mine.ce,
    }
    fields = {scope: rows[scope].pk, **bounds}
    asked = boxes(operator, add(Limit), fields)
    assert [*asked.values()] == [says]
    assert not Limit.objects.exists()
    assert is_saved(operator, add(Limit), {**fields, "confirmed": [*asked]})
    assert Limit.objects.count() == 1


def test_what_was_confirmed_is_in_the_security_log(operator: Client, mine: RowsOfVO) -> None:
    (asked,) = boxes(operator, change(mine.limit), {"vo": mine.vo.pk, "running": "0"})
    assert is_saved(operator, change(mine.limit), {"vo": mine.vo.pk, "running": "0", "confirmed": asked})
    changes = SecurityEvent.objects.latest("pk").facts["changes"]
    assert changes == {"running": "5 → 0", "confirmed": [f"+{asked}"]}


def test_a_confirmation_of_nothing_is_not_in_the_security_log(operator: Client, mine: RowsOfVO) -> None:
    assert is_saved(operator, change(mine.limit), {"vo": mine.vo.pk, "running": "4", "confirmed": "bob agreed"})
    assert SecurityEvent.objects.latest("pk").facts["changes"] == {"running": "5 → 4"}


def test_a_box_for_something_else_confirms_nothing(operator: Client, mine: RowsOfVO) -> None:
    fields = {"vo": mine.vo.pk, "running": "0"}
    (asked,) = boxes(operator, change(mine.limit), fields)
    lower = {"vo": mine.vo.pk, "running": "1", "confirmed": asked}
    assert [*boxes(operator, change(mine.limit), lower)] == [
        "The limit on the VO lhcb lets no job start while 1 or more of them run."
    ]
    both = {**fields, "waiting": "0", "confirmed": asked}
    assert len(boxes(operator, change(mine.limit), both)) == 2
    mine.limit.refresh_from_db()
    assert mine.limit.running == 5


def test_a_limit_with_room_is_saved_without_a_question(operator: Client, mine: RowsOfVO) -> None:
    page = operator.get(change(mine.limit)).content.decode()
    assert 'class="form-row hidden' in page
    assert 'name="confirmed"' not in page
    assert is_saved(operator, change(mine.limit), {"vo": mine.vo.pk, "running": "2", "delay_s": "86400"})


def test_a_limit_on_a_type_that_no_job_has_is_asked_about(operator: Client, mine: RowsOfVO) -> None:
    make_job(owner=mine.member, group=mine.group, job_type="Merge")
    asked = boxes(operator, add(Limit), {"job_type": "merge", "running": "5"})
    assert [*asked.values()] == [
        'No waiting job has the type "merge". Did you mean "Merge"? The limit is on nobody.',
    ]
    assert is_saved(operator, add(Limit), {"job_type": "Merge", "running": "5"})


def test_types_of_other_vos_are_not_told(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    make_job(owner=theirs.member, group=theirs.group, job_type="Secret")
    for scope in ({"vo": mine.vo.pk}, {"site": mine.site.pk}, {"ce": mine.ce.pk}):
        (words,) = boxes(manager, add(Limit), {**scope, "job_type": "Secrets", "running": "5"}).values()
        assert words == 'No waiting job has the type "Secrets". The limit is on nobody.'


def test_a_second_bound_of_one_kind_on_one_scope_is_refused(operator: Client, mine: RowsOfVO) -> None:
    sentence = f"Limit {mine.limit.pk} bounds this for the same scope; change or delete that one."
    assert errors_of(operator.post(add(Limit), {"vo": mine.vo.pk, "running": "9", "waiting": "9"})) == {
        "running": [sentence]
    }
    assert is_saved(operator, add(Limit), {"vo": mine.vo.pk, "waiting": "9"})
    assert is_saved(operator, add(Limit), {"vo": mine.vo.pk, "site": mine.site.pk, "running": "9"})
    assert is_saved(operator, change(mine.limit), {"vo": mine.vo.pk, "running": "9"})


# ---- Groups ----------------------------------------------------------------------------------------------------------


def test_a_priority_of_zero_is_asked_about(manager: Client, mine: RowsOfVO) -> None:
    fields = {"name": "lhcb_user", "priority": "0", "reason": "holidays", **NO_MEMBERSHIPS}
    asked = boxes(manager, change(mine.group), fields)
    assert [*asked.values()] == [
        "No job of the group lhcb_user starts: a priority of 0 gives it no share. 1 job waits."
    ]
    assert is_saved(manager, change(mine.group), {**fields, "confirmed": [*asked]})
    assert is_saved(manager, change(mine.group), {**fields, "reason": "", "properties": "JOB_SHARING"})


# ---- Throttles -------------------------------------------------------------------------------------------------------


def test_a_throttle_that_closes_its_site_is_saved_when_that_is_confirmed(manager: Client, mine: RowsOfVO) -> None:
    site = Site.objects.get(pk=mine.throttle.pk)
    make_job(owner=mine.member, group=mine.group, sites=[site.name])
    advertise(site.pk, of_numbers({SUBMITTING: 2, GATHERING: 0, CURRENT: 9}))
    fields = of_site(throttle_policy="level0", max_submitting_jobs="2")
    asked = boxes(manager, change(site), fields)
    (words,) = asked.values()
    assert words == (
        "The throttle closes the site busy.lhcb.org at once. The site advertised CurrentSubmittingJobs = 2, which "
        "leaves no room: MaxSubmittingJobs is 2. 1 job waits that can run nowhere else."
    )
    assert is_saved(manager, change(site), {**fields, "confirmed": [*asked]})
    # Closed already: a change that leaves it so stops nothing.
    assert is_saved(manager, change(site), of_site(throttle_policy="level0", max_submitting_jobs="1"))
    assert is_saved(manager, change(site), of_site(throttle_policy="level0", max_submitting_jobs="3"))
    assert boxes(manager, change(site), of_site(throttle_policy="level0", max_submitting_jobs="0"))


@pytest.mark.parametrize("expression", ["false", "1 > 2 && CurMatches < 5", "undefined || false", '"yes"'])
def test_an_expression_that_nothing_makes_true_is_refused(manager: Client, mine: RowsOfVO, expression: str) -> None:
    fields = of_site(throttle_policy="custom", throttle_requirements=expression)
    assert errors_of(manager.post(change(mine.site), fields)) == {
        "throttle_requirements": [
            "TRUE for no advertisement and no job, so no job would ever start; ban the site instead."
        ]
    }


@pytest.mark.parametrize("expression", ["true", "CurMatches < 5", "MY.Load < 1", "time() > 5", 'Owner == "a" || false'])
def test_an_expression_that_something_makes_true_is_saved(manager: Client, mine: RowsOfVO, expression: str) -> None:
    fields = of_site(throttle_policy="custom", throttle_requirements=expression)
    assert "throttle_requirements" not in errors_of_or_none(manager.post(change(mine.site), fields))


def errors_of_or_none(response: Any) -> dict[str, list[str]]:
    return {} if response.status_code == 302 else errors_of(response)


def test_a_site_that_no_longer_serves_the_vo_of_waiting_jobs_is_asked_about(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    make_job(owner=mine.member, group=mine.group, sites=[mine.site.name])
    asked = boxes(operator, change(mine.site), of_site(vos=[theirs.vo.pk]))
    assert [*asked.values()] == [
        "The site lhcb.org no longer serves the VO lhcb. 1 job waits that can run nowhere else."
    ]
    assert is_saved(operator, change(mine.site), of_site(vos=[theirs.vo.pk], confirmed=[*asked]))


# ---- Parameters ------------------------------------------------------------------------------------------------------


def test_parameters_of_a_vo_that_the_site_does_not_serve_are_refused(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    fields = of_site(vos=[mine.vo.pk], vo_parameters='{"lhbc": {"Memory": 5}}')
    assert errors_of(operator.post(change(mine.site), fields)) == {
        "vo_parameters": ['The site serves no VO "lhbc". Did you mean "lhcb"?']
    }
    fields["vo_parameters"] = '{"atlas": {"Memory": 5}}'
    assert "vo_parameters" in errors_of(operator.post(change(mine.site), fields))
    Site.objects.filter(pk=mine.site.pk).update(vo_parameters={"atlas": {"Memory": 5}})
    assert is_saved(operator, change(mine.site), fields)


def test_a_new_parameter_whose_name_is_like_a_known_one_is_asked_about_at_each_level(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    asked = 'No definition, job or other place has the parameter "lhcbMemry". Did you mean "lhcbMemory"?'
    fields = of_site(vos=[mine.vo.pk], parameters='{"lhcbMemry": 5, "Tier": 2, "lhcbmemory": 7}')
    assert boxes(operator, change(mine.site), fields) == {asked: f"{asked} No job that waits reads it."}
    assert is_saved(operator, change(mine.site), fields | {"confirmed": [asked]})
    # It is known from now on.
    assert is_saved(operator, change(mine.queue), of_queue(vo_parameters='{"lhcb": {"lhcbMemry": 5}}'))
    assert boxes(operator, change(mine.queue), of_queue(parameters='{"Tieer": 5}')).keys() == {
        'No definition, job or other place has the parameter "Tieer". Did you mean "Tier"?'
    }
    # Names of other VOs are not told.
    assert is_saved(operator, change(mine.queue), of_queue(parameters='{"atlasMemry": 5}'))


def stored_amounts(queue: Queue) -> dict[str, str]:
    """Return the fields of a form that leaves what jobs are compared with as it is."""
    return {"cpu_time_s": str(queue.cpu_time_s), "memory_mb": str(queue.memory_mb or ""), "platforms": ""}


def test_job_types_of_a_queue_that_no_waiting_job_has_are_asked_about(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    make_job(owner=theirs.member, group=theirs.group, job_type="Secret")
    asked = "No waiting job has a type that the queue lhcb_queue takes: "
    for typed, says in (("Usr", 'Usr. Did you mean "User"?'), ("Secrets", "Secrets.")):
        words = boxes(manager, change(mine.queue), of_queue(job_types=typed, **stored_amounts(mine.queue)))
        assert words == {asked + says: f"{asked}{says} It takes none of those that wait."}
    assert is_saved(manager, change(mine.queue), of_queue(job_types="User, Merge"))
    assert is_saved(manager, change(mine.queue), of_queue(job_types=""))


def test_job_types_of_a_director_that_no_waiting_job_has_are_asked_about(operator: Client, shared: Shared) -> None:
    asked = 'No waiting job has a type that the director everywhere takes: Usr. Did you mean "User"?'
    fields = {"kind": shared.director.kind, "pilots_per_cycle": "10", "private_fraction": "0"}
    words = boxes(operator, change(shared.director), {**fields, "job_types": "Usr"})
    assert words == {asked: f"{asked} It takes none of those that wait."}
    assert is_saved(operator, change(shared.director), {**fields, "job_types": "User"})


def test_values_of_a_queue_that_leave_waiting_jobs_without_one_are_asked_about(
    operator: Client, mine: RowsOfVO
) -> None:
    make_job(owner=mine.member, group=mine.group, sites=["lhcb.org"])
    same = stored_amounts(mine.queue)
    place = "queue lhcb_queue of computing element ce.lhcb.org at site lhcb.org"
    asked = f"The {place} no longer fits jobs that fit nowhere else."
    for narrower in ({"cpu_time_s": "1"}, {"tags": "zzz", "required_tags": "zzz"}):
        fields = of_queue(**{**same, **narrower})
        (words,) = boxes(operator, change(mine.queue), fields).items()
        assert words == (asked, f"{asked} 2 jobs wait that can run nowhere else.")
    assert is_saved(operator, change(mine.queue), {**fields, "confirmed": [asked]})
    # What fits another queue waits for that one.
    make_queue(name="other", ce=mine.ce, cpu_time_s=mine.queue.cpu_time_s)
    assert is_saved(operator, change(mine.queue), of_queue(**same))
    assert is_saved(operator, change(mine.queue), of_queue(**{**same, "cpu_time_s": "1"}))


def test_a_platform_that_runs_no_longer_what_waiting_jobs_need_is_asked_about(operator: Client, mine: RowsOfVO) -> None:
    platform = Platform.objects.create(name="x86_64-el9", runs=["x86_64-el8", "x86_64-el7"])
    Queue.objects.filter(pk=mine.queue.pk).update(platforms=["x86_64-el9"])
    make_job(owner=mine.member, group=mine.group, platforms=["x86_64-el8"])
    asked = "The platform x86_64-el9 no longer fits jobs that fit nowhere else."
    words = boxes(operator, change(platform), {"runs": "nothing"})
    assert words == {asked: f"{asked} 1 job waits that can run nowhere else."}
    platform.refresh_from_db()
    assert platform.runs == ["x86_64-el8", "x86_64-el7"]
    assert is_saved(operator, change(platform), {"runs": "x86_64-el8"})
    assert is_saved(operator, change(platform), {"runs": "nothing", "confirmed": [asked]})
