"""The pages of people: the list, and one person with suspension, groups and history."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from tests.factories import make_group, make_job, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, Invitation, Membership, User
from wms.accounts.services.members import put_into_group, remove_from_group
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import JobBucket
from wms.kernel.clock import current_time

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob(vo: VO) -> User:
    return make_user(username="bob", password="secret", manages=[vo])


@pytest.fixture
def manager(bob: User) -> Client:
    """Return Bob's browser, in which he has just logged in."""
    client = Client()
    assert client.post("/accounts/login/", {"username": "bob", "password": "secret"}).status_code == 302
    return client


def listed(client: Client, query: str = "") -> list[str]:
    return [row.username for row in client.get(f"/people/{query}").context["rows"]]


def test_a_manager_lists_the_people_of_the_own_vos_by_name_group_and_state(
    manager: Client, alice: User, vo: VO
) -> None:
    other = make_group(vo=make_vo(name="atlas"))
    make_user(username="charlie", groups=[other])
    production = make_group(name="lhcb_prod", vo=vo)
    User.objects.filter(pk=make_user(username="dora", groups=[production]).pk).update(is_active=False)
    assert listed(manager) == ["alice", "dora"]
    assert listed(manager, "?name=LIC") == ["alice"]
    assert listed(manager, "?name=charlie") == []
    assert listed(manager, "?group=lhcb_prod") == listed(manager, "?state=suspended") == ["dora"]
    assert "group" in manager.get(f"/people/?group={other.name}").context["form"].errors
    Membership.objects.create(user=alice, group=other)
    groups = manager.get("/people/?name=alice").context["rows"][0].groups
    assert [group.name for group in groups] == ["lhcb_user"]


def test_each_row_says_what_the_person_runs_and_used(manager: Client, alice: User, group: Group) -> None:
    for status in (JobStatus.RUNNING, JobStatus.WAITING, JobStatus.WAITING):
        make_job(owner=alice, group=group, status=status)
    elsewhere = make_group(vo=make_vo(name="atlas"))
    make_job(owner=alice, group=elsewhere, status=JobStatus.RUNNING)
    now = current_time()
    for in_group, days_ago in ((group, 0), (group, 3), (group, 30), (elsewhere, 0)):
        JobBucket.objects.create(
            width_s=Width.DAY, begun_at=Width.DAY.begin_of(now - timedelta(days=days_ago)), vo=in_group.vo,
            group=in_group, owner=alice, job_type="", done=5, failed=1, wall_s=7200.0,
        )  # fmt: skip
    (row,) = manager.get("/people/?name=alice").context["rows"]
    assert (row.jobs.running, row.jobs.waiting) == (1, 2)
    assert (row.usage.done, row.usage.failed, row.core_hours) == (10, 2, "4.0")


def test_pages_follow_the_order_of_user_names(manager: Client, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.portal.views.people.ROWS_PER_PAGE", 2)
    for name in ("e", "c", "a", "d", "b"):
        make_user(username=name, groups=[group])
    assert listed(manager) == ["a", "b"]
    following = manager.get("/people/?state=active").context["following"]
    assert following == "state=active&after=b"
    assert listed(manager, f"?{following}") == ["c", "d"]
    assert listed(manager, "?after=d") == ["e"]


def test_statements_do_not_grow_with_people(manager: Client, group: Group) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            manager.get("/people/")
        return len(queries)

    make_user(groups=[group])
    statements()
    one = statements()
    for _ in range(20):
        make_user(groups=[group])
    assert statements() == one


def test_others_get_404(portal: Client, manager: Client, client_of: ClientOf, alice: User) -> None:
    stranger = make_user(groups=[make_group(vo=make_vo(name="atlas"))])
    for address in ("/people/", f"/people/{alice.pk}/", "/changes/", "/changes/table.csv"):
        assert portal.get(address).status_code == 404
    assert manager.get(f"/people/{stranger.pk}/").status_code == 404
    assert manager.post(f"/people/{stranger.pk}/suspension/", {"suspended": "yes"}).status_code == 404
    assert client_of(make_user(operator=True)).get(f"/people/{stranger.pk}/").status_code == 200


def test_a_suspension_and_its_end_say_the_numbers(manager: Client, alice: User, group: Group) -> None:
    for status in (JobStatus.RUNNING, JobStatus.WAITING):
        make_job(owner=alice, group=group, status=status)
    address = f"/people/{alice.pk}/suspension/"
    assert "1 at pilots is killed" in manager.get(f"/people/{alice.pk}/").content.decode()
    said = manager.post(address, {"suspended": "yes", "reason": "stolen account"}, follow=True).content.decode()
    assert "alice: suspended; payloads killed: 1; jobs that wait, and are not matched: 1." in said
    assert "reason: stolen account" in said
    alice.refresh_from_db()
    assert not alice.is_active
    said = manager.post(address, {"suspended": "no"}, follow=True).content.decode()
    assert "alice: the suspension has ended; waiting jobs, which can be matched again: 1." in said
    alice.refresh_from_db()
    assert alice.is_active


def test_a_person_with_powers_or_in_another_vo_is_not_suspended(manager: Client, alice: User) -> None:
    Membership.objects.create(user=alice, group=make_group(vo=make_vo(name="atlas")))
    assert "also in a VO that you do not manage" in manager.get(f"/people/{alice.pk}/").content.decode()
    answer = manager.post(f"/people/{alice.pk}/suspension/", {"suspended": "yes"})
    assert answer.status_code == 400
    assert User.objects.get(pk=alice.pk).is_active


def test_changes_need_a_fresh_log_in(manager: Client, alice: User, group: Group, settings: Settings) -> None:
    settings.WMS_FRESH_LOG_IN_S = 0
    for address, form in (
        (f"/people/{alice.pk}/suspension/", {"suspended": "yes"}),
        ("/people/memberships/", {"username": "alice", "group": group.name, "action": "remove"}),
    ):
        answer = manager.post(address, form)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/again/?next=%2Fpeople%2F")
    assert User.objects.get(pk=alice.pk).is_active
    assert Membership.objects.filter(user=alice, group=group).exists()


def test_members_are_added_invited_and_removed(manager: Client, alice: User, group: Group, vo: VO) -> None:
    production, elsewhere = make_group(name="lhcb_prod", vo=vo), make_group(vo=make_vo(name="atlas"))
    make_user(username="nora")

    def change(username: str, group: str, **others: str) -> str:
        form = {"username": username, "group": group, **others}
        return manager.post("/people/memberships/", form, follow=True).content.decode()

    assert "alice is a member of lhcb_prod." in change("alice", "lhcb_prod", person="alice")
    # Nothing shows whether there is a user of the name.
    assert "nora is invited to lhcb_prod" in change("nora", "lhcb_prod")
    assert "missing is invited to lhcb_prod" in change("missing", "lhcb_prod")
    assert Invitation.objects.filter(group=production).count() == 2
    assert "alice is no longer a member" in change("alice", "lhcb_user", action="remove", person="alice")
    assert not Membership.objects.filter(user=alice, group=group).exists()
    assert "Select a valid choice" in change("alice", elsewhere.name)
    assert not Membership.objects.filter(group=elsewhere).exists()


def test_the_history_of_a_person_is_the_part_of_the_managers_vos(
    manager: Client, bob: User, alice: User, group: Group, vo: VO
) -> None:
    olga, elsewhere = make_user(username="olga", operator=True), make_group(name="atlas_user", vo=make_vo(name="atlas"))
    production = make_group(name="lhcb_prod", vo=vo)
    for into in (elsewhere, production):
        put_into_group(into, "alice", by=olga, now=timezone.now())
    put_into_group(production, make_user(groups=[group]).username, by=bob, now=timezone.now())
    remove_from_group(elsewhere, "alice", by=olga, now=timezone.now())
    manager.post(f"/people/{alice.pk}/suspension/", {"suspended": "yes", "reason": "stolen account"})
    history = manager.get(f"/people/{alice.pk}/").context["history"]
    assert [(entry.who, entry.changes) for entry in history] == [
        ("bob", ["is_active: no", "reason: stolen account"]),
        ("olga", ["memberships: +alice in lhcb_prod"]),
    ]
    assert "atlas" not in manager.get(f"/people/{alice.pk}/").content.decode()


def test_changes_are_listed_filtered_and_sent_as_csv(manager: Client, alice: User, bob: User, group: Group) -> None:
    olga, elsewhere = make_user(username="olga", operator=True), make_group(name="atlas_user", vo=make_vo(name="atlas"))
    for into, by in ((elsewhere, olga), (make_group(name="lhcb_prod", vo=group.vo), olga), (group, bob)):
        name = make_user(username=f"new_{into}", groups=[group] if into != group else []).username
        put_into_group(into, name, by=by, now=timezone.now())
    manager.post(f"/people/{alice.pk}/suspension/", {"suspended": "yes"})

    def targets(query: str = "") -> list[str]:
        return [entry.target for entry in manager.get(f"/changes/{query}").context["changes"]]

    assert targets() == ["user alice", "user new_lhcb_user", "group lhcb_prod"]
    assert targets("?who=olga") == targets("?target=prod") == ["group lhcb_prod"]
    assert targets("?since=2d") == targets()
    assert targets("?before=2d") == []
    assert "since" in manager.get("/changes/?since=nonsense").context["form"].errors
    answer = manager.get("/changes/table.csv?who=olga")
    head, line = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert head == "id,at,who,target,changes"
    assert line.endswith("olga,group lhcb_prod,memberships: +new_lhcb_prod in lhcb_prod")
