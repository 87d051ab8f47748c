"""The history of the configuration: each door writes it, and who sees it over REST and in the administration."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from resources.models import Site
from tests.admin.conftest import RowsOfVO, change, changelist
from tests.admin.test_resources import of_site
from tests.api.administration.conftest import Administration, history_of
from tests.factories import make_site, make_storage_element, make_user
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import ConfigurationChange, SecurityEvent
from wms.accounts.security_log import record, remove_old
from wms.configuration.configure import configure

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/history/"


def apply(text: str) -> None:
    configure(text.encode(), environ={"KEY": "hunter2"}, now=timezone.now(), confirmed=True)


def seen(client: Any, **query: str) -> list[tuple[str, str]]:
    return [(each["who"], each["target"]) for each in client.get(ADDRESS, query).json()["results"]]


def browser_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_the_same_change_through_each_door_is_in_the_history_of_the_row(administration: Administration) -> None:
    own, mallory = administration.own, administration.mallory
    mallory.is_staff = True
    mallory.save()
    form = {"name": "lhcb", "setup": own.vo.setup, "setups": ",".join(own.vo.setups), "any_segment_fraction": "0.5"}
    assert browser_of(mallory).post(change(own.vo), form).status_code == 302
    administration.manager.put("/api/v1/vos/lhcb/pause/", {"for_s": 60, "reason": "by REST"})
    apply(f"vos: [{{name: lhcb, setup: {own.vo.setup}, any_segment_fraction: 0.25}}]")
    lines = history_of(own.vo)
    assert "pause_reason: by REST" in lines
    assert "any_segment_fraction: 0 → 0.5" in lines
    assert "any_segment_fraction: 0.5 → 0.25" in lines
    page = browser_of(mallory).get(reverse("admin:accounts_vo_history", args=[own.vo.pk])).content.decode()
    assert all(f"<div>{line}</div>" in page for line in lines)
    assert page.index("0.5 → 0.25") < page.index("by REST") < page.index("0 → 0.5")


def test_a_file_says_old_and_new_but_no_secrets(administration: Administration) -> None:
    own = administration.own
    apply(
        f"""
        sites:
          - name: {own.site.name}
            vos: [lhcb]
            parameters: {{Country: CH}}
            throttle: {{policy: level0, max_submitting_jobs: 5}}
            ces:
              - name: {own.ce.name}
                type: local
                options: {{python: "${{KEY}}"}}
                queues: [{{name: {own.queue.name}, cpu_time_s: 300000, memory_mb: 8000}}]
        limits: [{{scope: {{vo: lhcb}}, running: 7}}]
        """
    )
    site = history_of(own.site)
    assert "parameters Country: CH" in site
    assert "throttle max_submitting_jobs: 5" in site
    assert [line for line in history_of(own.queue) if line.startswith("memory_mb")] == ["memory_mb: 4000 → 8000"]
    assert "options: +python" in history_of(own.ce)
    assert "hunter2" not in str(list(SecurityEvent.objects.values()))
    assert history_of(own.limit)[-1:] == ["running: 5 → 7"]
    targets = set(ConfigurationChange.objects.exclude(row_type="").values_list("target", flat=True))
    assert {"site lhcb.org", "computing element ce.lhcb.org at site lhcb.org"} <= targets


def test_a_limit_that_a_file_no_longer_states_is_in_the_history(administration: Administration) -> None:
    limit = administration.own.limit
    apply("limits: []")
    assert history_of(limit)[-1] == "deleted"
    assert seen(administration.manager, target=f"limit {limit.pk} on the VO lhcb")


def test_managers_see_the_changes_of_their_vos_only(administration: Administration) -> None:
    own, other = administration.own, administration.other
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    shared = make_site(name="shared.org", vos=[own.vo, other.vo])
    for_all = make_site(name="for.all.org")
    SecurityEvent.objects.all().delete()
    for target, row in {
        "own group": own.group, "other queue": other.queue, "shared site": shared, "site for all": for_all,
        "own pilot": own.pilot, "own limit": own.limit, "user": own.member,
    }.items():  # fmt: skip
        record(kind, actor="olga", target=target, row=row, what="changed")
    record(SecurityEventKind.LOG_OUT, actor="olga", target="no row")
    targets = [target for _, target in seen(administration.manager)]
    assert targets == ["own limit", "own pilot", "site for all", "shared site", "own group"]
    assert len(seen(administration.operator)) == 7
    # Nothing shows whether there is a VO that the caller does not manage.
    assert seen(administration.manager, vo="atlas") == seen(administration.manager, vo="nosuch") == []
    assert seen(administration.operator, vo="atlas") == [
        ("olga", "site for all"), ("olga", "shared site"), ("olga", "other queue")
    ]  # fmt: skip
    assert seen(administration.manager, target="own group") == [("olga", "own group")]
    assert seen(administration.manager, who="mallory") == []
    assert "address" not in administration.manager.get(ADDRESS).json()["results"][0]


def test_the_page_of_managers_has_what_concerns_them(administration: Administration) -> None:
    administration.manager.put("/api/v1/vos/lhcb/pause/", {"for_s": 60, "reason": "storage is moved"})
    administration.operator.put("/api/v1/vos/atlas/pause/", {"for_s": 60, "reason": "network is moved"})
    bob = make_user(username="bob", staff=True, manages=[administration.own.vo])
    page = browser_of(bob).get(changelist(ConfigurationChange)).content.decode()
    assert "<div>pause_reason: storage is moved</div>" in page
    assert "network is moved" not in page
    assert "127.0.0.1" not in page
    assert browser_of(bob).get(changelist(SecurityEvent)).status_code == 403


def changes_seen(client: Any) -> list[dict[str, Any]]:
    return [each["facts"]["changes"] for each in client.get(ADDRESS).json()["results"] if "changes" in each["facts"]]


def test_what_belongs_to_other_vos_at_a_shared_site_is_not_shown(administration: Administration) -> None:
    own, other = administration.own, administration.other
    shared = make_site(name="shared.org", vos=[own.vo, other.vo])
    make_storage_element(name="ATLAS-SE", vos=[other.vo])
    SecurityEvent.objects.all().delete()
    parameters = "atlas: {Queue: top, db_password: hunter2}, lhcb: {Queue: low, db_password: hunter3}"
    apply(f"sites: [{{name: shared.org, vo_parameters: {{{parameters}}}, storage_elements: [ATLAS-SE]}}]")
    lhcb = {"Queue": "low", "db_password": "[masked]"}
    assert changes_seen(administration.manager) == [
        {"vo_parameters": {"lhcb": lhcb}},
        {"storage_elements": "changed"},
    ]
    assert changes_seen(administration.operator)[0] == {
        "vo_parameters": {"atlas": {"Queue": "top", "db_password": "[masked]"}, "lhcb": lhcb}
    }
    bob = browser_of(make_user(username="bob", staff=True, manages=[own.vo]))
    pages = (reverse("admin:resources_site_history", args=[shared.pk]), changelist(ConfigurationChange))
    for page in (bob.get(address).content.decode() for address in pages):
        assert "Queue: low" in page
        assert not [text for text in ("ATLAS-SE", "Queue: top", "hunter", "atlas") if text in page]


def test_a_manager_sees_that_a_site_left_and_nothing_of_its_time_elsewhere(administration: Administration) -> None:
    moved = make_site(name="moved.org", vos=[administration.own.vo])
    SecurityEvent.objects.all().delete()
    apply("sites: [{name: moved.org, vos: [atlas]}]")
    administration.operator.put("/api/v1/sites/moved.org/state/", {"state": "banned", "reason": "affair of atlas"})
    assert changes_seen(administration.manager) == [{"vos": ["-lhcb"]}]
    apply("sites: [{name: moved.org, vos: [lhcb]}]")
    assert changes_seen(administration.manager) == [{"vos": ["+lhcb"]}, {"vos": ["-lhcb"]}]
    bob = browser_of(make_user(username="bob", staff=True, manages=[administration.own.vo]))
    page = bob.get(reverse("admin:resources_site_history", args=[moved.pk])).content.decode()
    assert "vos: -lhcb" in page
    assert "affair of atlas" not in page


def test_zero_is_a_value_and_what_a_new_row_does_not_have_is_left_out(administration: Administration) -> None:
    SecurityEvent.objects.all().delete()
    apply(
        "groups: [{name: lhcb_zero, vo: lhcb, priority: 0}]\n"
        "limits: [{scope: {group: lhcb_user}, running: 0}]\n"
        "storage_elements: [{name: LHCB-SE, url: 'https://se.example.org', vos: [lhcb]}]"
    )
    changes = changes_seen(administration.manager)
    assert {"name": "lhcb_zero", "priority": "0", "vo": "lhcb"} in changes
    assert {"running": "0", "scope": {"group": "lhcb_user"}} in changes
    assert not [change for change in changes if not change or "credential" in change]


def test_a_long_change_keeps_both_values(administration: Administration) -> None:
    for letter in "ab":
        administration.manager.put("/api/v1/vos/lhcb/pause/", {"for_s": 60, "reason": letter * 195})
    reason = changes_seen(administration.manager)[0]["pause_reason"]
    assert reason == f"{'a' * 89}… → {'b' * 89}…"
    many = ", ".join(f"P{number:02}: 1" for number in range(60))
    apply(f"sites: [{{name: lhcb.org, parameters: {{{many}}}}}]")
    parameters = changes_seen(administration.manager)[0]["parameters"]
    assert (len(parameters), parameters["…"]) == (46, "and 15 more")


def test_a_membership_is_in_the_history_of_its_group_through_each_door(administration: Administration) -> None:
    group = administration.own.group
    apply("users: [{username: carol, groups: [lhcb_user]}]")
    apply("users: [{username: carol, groups: []}]")
    lines = [line for line in history_of(group) if line.startswith("memberships")]
    assert lines == ["memberships: +carol in lhcb_user", "memberships: -carol in lhcb_user"]


def test_parameters_of_a_site_are_in_its_history_with_old_and_new_values(administration: Administration) -> None:
    own: RowsOfVO = administration.own
    Site.objects.filter(pk=own.site.pk).update(parameters={"Country": "CH", "OS": "EL9"})
    bob = make_user(username="bob", staff=True, manages=[own.vo])
    form = of_site(parameters='{"Country": "FR", "Tier": 2}')
    assert browser_of(bob).post(change(own.site), form).status_code == 302
    assert {"parameters Country: CH → FR", "parameters OS: EL9 → none", "parameters Tier: 2"} <= {*history_of(own.site)}


def test_changes_of_the_configuration_are_kept_longer(administration: Administration, settings: Settings) -> None:
    SecurityEvent.objects.all().delete()
    record(SecurityEventKind.LOG_OUT, actor="old")
    record(SecurityEventKind.CONFIGURATION_CHANGED, row=administration.own.group, what="changed")
    SecurityEvent.objects.update(at=timezone.now() - timedelta(days=400))
    assert remove_old(now=timezone.now()) == 1
    assert SecurityEvent.objects.get().kind == SecurityEventKind.CONFIGURATION_CHANGED
    settings.WMS_KEEP_ADMIN_LOG_DAYS = 365
    assert remove_old(now=timezone.now()) == 1
