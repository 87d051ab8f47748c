"""The configuration as a file over REST: what its author may change, bound to what was compared."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone
from rest_framework.test import APIClient

from resources.models import ComputingElement, Queue, Site, SiteToken, StorageElement
from taskqueues.models import Limit
from tests.api.administration.conftest import Administration, changes_of, client_of
from tests.factories import make_ce, make_group, make_site, make_user
from wms.accounts.models import VO, ApiToken, Group, Membership, SecurityEvent, User
from wms.kernel.secrets import encrypt

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/configuration/"


def file_of(client: APIClient) -> str:
    answer = client.get(ADDRESS)
    assert answer.status_code == 200
    file: str = answer.json()["file"]
    return file


def compare(client: APIClient, file: str) -> Any:
    return client.post(f"{ADDRESS}preview/", {"file": file})


def apply(client: APIClient, file: str, **meant: object) -> Any:
    version = compare(client, file).json()["version"]
    return client.post(f"{ADDRESS}apply/", {"file": file, "version": version, **meant})


def problems_of(client: APIClient, file: str) -> str:
    answer = compare(client, file)
    assert (answer.status_code, answer.json()["code"]) == (400, "configuration"), answer.json()
    return "\n".join(answer.json()["errors"]["file"])


def rows() -> list[object]:
    """Return all that a file may change."""
    tables: tuple[type[Model], ...] = (
        *(VO, VO.managers.through, Group, User, Membership, Limit),
        *(Site, Site.vos.through, ComputingElement, Queue, StorageElement, SiteToken),
    )
    return [list(each._default_manager.order_by("pk").values()) for each in tables]


@pytest.mark.parametrize("role", ["manager", "operator"])
def test_a_file_that_is_sent_back_unchanged_changes_nothing(administration: Administration, role: str) -> None:
    client: APIClient = getattr(administration, role)
    before = rows()
    answer = compare(client, file_of(client))
    assert (answer.status_code, answer.json()["differences"]) == (200, [])
    assert apply(client, file_of(client)).status_code == 200
    assert rows() == before
    assert not SecurityEvent.objects.filter(kind="configuration.applied").exists()


def test_a_manager_gets_nothing_of_other_vos_and_of_shared_sites(administration: Administration) -> None:
    shared = make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    make_ce(name="ce.shared.org", site=shared)
    file = file_of(administration.manager)
    assert [name for name in ("lhcb_user", "lhcb_member", "lhcb.org", "ce.lhcb.org", "lhcb_queue") if name in file]
    assert "atlas" not in file
    assert "shared" not in file
    assert "mallory" not in file


def test_no_file_has_what_computing_elements_run(administration: Administration) -> None:
    ComputingElement.objects.update(type="ssh", options={"host": "login.example.org", "python": "/opt/python"})
    for client in (administration.manager, administration.operator):
        file = file_of(client)
        assert "ce.lhcb.org" in file
        assert not [word for word in ("login.example.org", "python", "ssh", "options", "identity") if word in file]
        assert compare(client, file).json()["differences"] == []


def test_no_file_has_a_secret(administration: Administration) -> None:
    StorageElement.objects.update(credential_encrypted=encrypt("hush-hush"))
    User.objects.update(password="pbkdf2-of-somebody")
    for client in (administration.manager, administration.operator):
        file = file_of(client)
        assert not [word for word in ("hush-hush", "pbkdf2", "password", "credential:", "tokens") if word in file]
        stored: list[object] = [*ApiToken.objects.values_list("digest", flat=True)]
        stored += [*SiteToken.objects.values_list("digest", flat=True)]
        stored += [*StorageElement.objects.values_list("credential_encrypted", flat=True)]
        stored += [*User.objects.values_list("password", flat=True)]
        assert stored
        texts = {each if isinstance(each, str) else bytes(each).hex() for each in stored}  # type: ignore[call-overload]
        assert [text for text in texts if text and text in file] == []


OF_OTHERS = {
    "a group of another VO": "groups: [{name: atlas_user, vo: atlas, priority: 5}]",
    "a group in another VO": "groups: [{name: new, vo: atlas}]",
    "another VO": "vos: [{name: atlas, any_segment_fraction: 0.5}]",
    "a new VO": "vos: [{name: new, setup: x}]",
    "a user of another VO": "users: [{username: atlas_member, suspended: true}]",
    "a new user": "users: [{username: new}]",
    "a site of another VO": "sites: [{name: atlas.org, status: {state: banned, reason: x}}]",
    "a shared site": "sites: [{name: shared.org, status: {state: banned, reason: x}}]",
    "a queue of another VO": "sites: [{name: atlas.org, ces: [{name: ce.atlas.org, queues: [{name: atlas_queue}]}]}]",
    "a site for all VOs": "sites: [{name: new.org}]",
    "a site for another VO": "sites: [{name: new.org, vos: [atlas]}]",
    "other VOs of the own site": "sites: [{name: lhcb.org, vos: []}]",
    "a definition of another VO": "requirement_definitions: [{name: atlasMemory, kind: set}]",
    "a limit on another VO": "limits: [{scope: {vo: atlas}, running: 1}]",
    "a limit on all users": "limits: [{scope: {job_type: User}, running: 1}]",
    "a limit on a shared site": "limits: [{scope: {site: shared.org}, running: 1}]",
    "a director": "directors: [{name: x}]",
    "a platform": "platforms: {x: [y]}",
    "a storage element": 'storage_elements: [{name: x, url: "https://x.example.org/"}]',
    "the managers": "vos: [{name: lhcb, managers: []}]",
    "a right of people": "users: [{username: lhcb_member, operator: true}]",
    "certificates": "users: [{username: lhcb_member, dns: [/CN=mallory]}]",
    "a property that lifts a limit": "groups: [{name: lhcb_user, vo: lhcb, properties: [PRODUCTION]}]",
    "a group that the user is not in the VO of": "users: [{username: mallory, groups: [lhcb_user]}]",
}
OF_NOBODY = {
    "the type of a CE": "sites: [{name: lhcb.org, ces: [{name: ce.lhcb.org, type: local}]}]",
    "options of a CE": "sites: [{name: lhcb.org, ces: [{name: ce.lhcb.org, options: {python: /tmp/x}}]}]",
    "the identity of a CE": "sites: [{name: lhcb.org, ces: [{name: ce.lhcb.org, identity: sudo}]}]",
    "a new CE": "sites: [{name: lhcb.org, ces: [{name: new}]}]",
    "a password": "users: [{username: lhcb_member, password: x}]",
    "a token": "sites: [{name: lhcb.org, tokens: {register: some-token-of-mine}}]",
    "a variable of the server": 'sites: [{name: lhcb.org, parameters: {x: "${WMS_SECRET_KEY}"}}]',
    "no YAML": "sites: [",
}


@pytest.mark.parametrize("file", [*OF_OTHERS.values(), *OF_NOBODY.values()], ids=[*OF_OTHERS, *OF_NOBODY])
def test_a_manager_may_not_change(administration: Administration, file: str) -> None:
    make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    manager, before = administration.manager, rows()
    assert problems_of(manager, file).startswith("line ")
    answer = manager.post(f"{ADDRESS}apply/", {"file": file, "version": "x", "delete": True})
    assert answer.status_code == 400
    assert rows() == before


@pytest.mark.parametrize("file", OF_NOBODY.values(), ids=OF_NOBODY)
def test_an_operator_may_not_change_by_a_file(administration: Administration, file: str) -> None:
    operator, before = administration.operator, rows()
    assert problems_of(operator, file).startswith("line ")
    assert rows() == before


@pytest.mark.parametrize(
    "file",
    [
        "vos: [{name: NAME, any_segment_fraction: 0.5}]",
        "users: [{username: NAME_member, suspended: true}]",
        "groups: [{name: new, vo: NAME}]",
        "sites: [{name: new.org, vos: [NAME]}]",
        "limits: [{scope: {group: NAME_user}, running: 1}]",
        "limits: [{scope: {vo: lhcb, group: NAME_user}, running: 1}]",
        "limits: [{scope: {vo: lhcb, user: NAME_member}, running: 1}]",
        "limits: [{scope: {site: NAME.org, ce: ce.NAME.org}, running: 1}]",
    ],
)
def test_what_a_manager_does_not_see_is_as_what_does_not_exist(administration: Administration, file: str) -> None:
    hidden = problems_of(administration.manager, file.replace("NAME", "atlas"))
    unknown = problems_of(administration.manager, file.replace("NAME", "acme1"))
    assert hidden.replace("atlas", "acme1") == unknown


def test_a_manager_changes_what_the_administration_lets_a_manager_change(administration: Administration) -> None:
    other = make_group(name="lhcb_prod", vo=administration.own.vo)
    file = f"""
    vos: [{{name: lhcb, setup: {administration.own.vo.setup}, any_segment_fraction: 0.25}}]
    groups: [{{name: lhcb_user, vo: lhcb, priority: 6000}}, {{name: lhcb_new, vo: lhcb}}]
    users: [{{username: lhcb_member, groups: [lhcb_prod], suspended: true}}]
    sites:
      - name: lhcb.org
        parameters: {{Country: CH}}
        ces:
          - name: ce.lhcb.org
            queues: [{{name: lhcb_queue, cpu_time_s: 86400, max_pilots: 7}}, {{name: more, cpu_time_s: 86400}}]
      - {{name: new.org, vos: [lhcb]}}
    limits: [{{scope: {{vo: lhcb}}, running: 9}}]
    """
    answer = compare(administration.manager, file)
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert {each["row"]: each["changes"] for each in found["differences"]}["group lhcb_user"] == [
        {"name": "priority", "before": "1000", "after": "6000"}
    ]
    assert found["deletions"] == ["lhcb_member leaves the group lhcb_user"]
    (stops,) = found["consequences"]
    assert stops["sentence"].startswith("The queue lhcb_queue of computing element ce.lhcb.org")
    assert stops["extent"] == "1 job waits that can run nowhere else."
    assert apply(administration.manager, file, delete=True).status_code == 409
    answer = apply(administration.manager, file, delete=True, confirmed=[stops["sentence"]])
    assert answer.status_code == 200, answer.json()
    assert Group.objects.get(name="lhcb_user").priority == 6000
    assert Group.objects.get(name="lhcb_new").vo == administration.own.vo
    member = User.objects.get(username="lhcb_member")
    assert (member.is_active, [each.group for each in member.memberships.all()]) == (False, [other])
    assert Queue.objects.get(name="lhcb_queue").max_pilots == 7
    assert Queue.objects.get(name="more").ce == administration.own.ce
    assert [*Site.objects.get(name="new.org").vos.all()] == [administration.own.vo]
    assert Limit.objects.get(vo=administration.own.vo).running == 9
    assert Limit.objects.get(vo=administration.other.vo).running == 5


def test_the_history_says_who_changed_what_through_a_file(administration: Administration) -> None:
    assert apply(administration.manager, "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]").status_code == 200
    event = SecurityEvent.objects.get(kind="configuration.changed", target="group lhcb_user")
    assert (event.actor_name, event.facts["door"]) == ("mallory", "file")
    assert changes_of()[-1][2] == {"priority": "1000 → 6000"}


def test_a_comparison_changes_and_records_nothing(administration: Administration) -> None:
    manager, before, events = administration.manager, rows(), SecurityEvent.objects.count()
    assert compare(manager, "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]").json()["differences"]
    assert (rows(), SecurityEvent.objects.count()) == (before, events)


def test_a_file_is_not_applied_to_another_configuration_than_it_was_compared_with(
    administration: Administration,
) -> None:
    file = "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]"
    version = compare(administration.manager, file).json()["version"]
    Group.objects.filter(name="lhcb_user").update(priority=2)
    answer = administration.manager.post(f"{ADDRESS}apply/", {"file": file, "version": version})
    assert (answer.status_code, answer.json()["code"]) == (409, "configuration_changed")
    assert Group.objects.get(name="lhcb_user").priority == 2


def test_another_file_than_the_one_that_was_compared_is_not_applied(administration: Administration) -> None:
    version = compare(administration.manager, "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]").json()["version"]
    other = {"file": "groups: [{name: lhcb_user, vo: lhcb, priority: 60000}]", "version": version}
    answer = administration.manager.post(f"{ADDRESS}apply/", other)
    assert (answer.status_code, answer.json()["code"]) == (409, "configuration_changed")
    assert Group.objects.get(name="lhcb_user").priority == 1000


def test_a_change_that_the_author_does_not_see_makes_no_other_version(administration: Administration) -> None:
    file = "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]"
    version = compare(administration.manager, file).json()["version"]
    Group.objects.filter(name="atlas_user").update(priority=2)
    answer = administration.manager.post(f"{ADDRESS}apply/", {"file": file, "version": version})
    assert answer.status_code == 200


def test_deletions_are_confirmed_and_limits_of_others_stay(administration: Administration) -> None:
    shared = make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    outsider = make_user(username="outsider", groups=[administration.other.group])
    kept = {
        Limit.objects.create(site=shared, running=3).pk,
        Limit.objects.create(vo=administration.own.vo, user=outsider, running=2).pk,
        administration.other.limit.pk,
    }
    found = compare(administration.manager, "limits: []").json()
    assert found["deletions"] == ["limit scope {vo: lhcb} running 5"]
    refused = apply(administration.manager, "limits: []")
    assert (refused.status_code, refused.json()["code"]) == (409, "deletions_not_confirmed")
    assert Limit.objects.filter(pk=administration.own.limit.pk).exists()
    assert apply(administration.manager, "limits: []", delete=True).status_code == 200
    assert {*Limit.objects.values_list("pk", flat=True)} == kept


def test_what_stops_jobs_is_confirmed(administration: Administration) -> None:
    file = "limits: [{scope: {vo: lhcb}, running: 0}]"
    refused = apply(administration.manager, file)
    assert (refused.status_code, refused.json()["code"]) == (409, "confirmation_needed")
    (sentence,) = refused.json()["errors"]["confirmed"]
    assert [each["sentence"] for each in compare(administration.manager, file).json()["consequences"]] == [sentence]
    assert apply(administration.manager, file, confirmed=[sentence]).status_code == 200
    assert Limit.objects.get(vo=administration.own.vo).running == 0


def test_a_second_bound_on_one_scope_is_refused_as_in_the_administration(administration: Administration) -> None:
    file = "limits: [{scope: {vo: lhcb}, running: 5}, {scope: {vo: lhcb}, running: 6}]"
    assert "bounded for the same scope" in problems_of(administration.manager, file)


def test_members_are_changed_after_a_fresh_log_in_only(administration: Administration) -> None:
    file = "users: [{username: lhcb_member, suspended: true}]"
    manager = client_of(administration.mallory)
    version = compare(manager, file).json()
    assert version["needs_fresh_log_in"] is True
    ApiToken.objects.filter(user=administration.mallory).update(created_at=timezone.now() - timedelta(hours=1))
    answer = apply(manager, file)
    assert (answer.status_code, answer.json()["code"]) == (403, "fresh_log_in_needed")
    assert User.objects.get(username="lhcb_member").is_active
    assert apply(manager, "groups: [{name: lhcb_user, vo: lhcb, priority: 2}]").status_code == 200


def test_memberships_in_other_vos_stay_and_are_not_shown(administration: Administration) -> None:
    both = make_user(username="both", groups=[administration.own.group, administration.other.group])
    make_group(name="lhcb_prod", vo=administration.own.vo)
    assert "atlas" not in file_of(administration.manager)
    file = "users: [{username: both, groups: [lhcb_prod]}]"
    answer = apply(administration.manager, file, delete=True)
    assert answer.status_code == 200
    assert "atlas" not in str(answer.json())
    names = {each.group.name for each in both.memberships.select_related("group")}
    assert names == {"lhcb_prod", "atlas_user"}
    assert "not yours" in problems_of(administration.manager, "users: [{username: both, suspended: true}]")


def test_storage_elements_and_parameters_of_others_stay(administration: Administration) -> None:
    own, site = administration.own, administration.own.site
    hidden = StorageElement.objects.create(name="hidden", url="https://x.example.org/")
    site.storage_elements.add(hidden)
    Site.objects.filter(pk=site.pk).update(vo_parameters={"atlas": {"x": "1"}, "lhcb": {"y": "2"}})
    assert not {"hidden", "atlas"} & {*file_of(administration.manager).replace(",", " ").split()}
    file = f"sites: [{{name: {site.name}, storage_elements: [], vo_parameters: {{lhcb: {{y: '3'}}}}}}]"
    assert apply(administration.manager, file).status_code == 200
    site.refresh_from_db()
    assert ([*site.storage_elements.all()], site.vo_parameters) == (
        [hidden],
        {"atlas": {"x": "1"}, own.vo.name: {"y": "3"}},
    )


def test_only_superusers_change_superusers_by_a_file(administration: Administration) -> None:
    make_user(username="root", superuser=True)
    operator = administration.operator
    assert "not yours" in problems_of(operator, "users: [{username: root, suspended: true}]")
    assert "not yours" in problems_of(operator, "users: [{username: lhcb_member, superuser: true}]")


def test_a_file_that_is_too_long_is_refused(administration: Administration) -> None:
    answer = compare(administration.manager, "#" + "x" * 4 * 1024 * 1024)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_others_get_and_send_no_file(administration: Administration) -> None:
    member = client_of(administration.own.member)
    assert [member.get(ADDRESS).status_code, compare(member, "").status_code] == [403, 403]
