"""Health of computing elements over REST, and the end of a back-off."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from pilots.models import CEHealth
from pilots.queries import without_rounds
from pilots.tasks import serve_ce
from tests.api.administration.conftest import Administration, client_of
from tests.factories import make_ce, make_group, make_site, make_user
from wms.accounts.domain import TokenScope

pytestmark = pytest.mark.django_db

LIST = "/api/v1/ces/"
ASK_AGAIN = "/api/v1/sites/lhcb.org/ces/ce.lhcb.org/ask-again/"


@pytest.fixture
def started_rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which each CE is added for which a round is started."""
    started: list[int] = []
    monkeypatch.setattr(serve_ce, "apply_async", lambda kwargs, **_: started.append(kwargs["ce_id"]))
    return started


@pytest.fixture
def paused(administration: Administration) -> CEHealth:
    """Return the health of the own CE, in a pause after three failures."""
    health = administration.own.ce_health
    health.ask_after = health.send_after = timezone.now() + timedelta(minutes=20)
    health.stalls, health.free_slots = "Pilots in the queue lhcb_queue did not start in time.", 5
    health.save()
    return health


def is_paused(health: CEHealth) -> bool:
    return CEHealth.objects.filter(without_rounds(now=timezone.now()), pk=health.pk).exists()


def test_a_manager_sees_the_health_at_sites_that_serve_the_vo(administration: Administration, paused: CEHealth) -> None:
    make_ce(name="new.org", site=make_site(name="shared.org"))
    found = administration.manager.get(LIST).json()["results"]
    assert [(each["site"], each["ce"]) for each in found] == [("lhcb.org", "ce.lhcb.org"), ("shared.org", "new.org")]
    until = paused.ask_after.isoformat().replace("+00:00", "Z") if paused.ask_after else None
    assert found[0] == {
        "site": "lhcb.org",
        "ce": "ce.lhcb.org",
        "type": "local",
        "state": "active",
        "trouble": "It does not answer",
        "stalls": "Pilots in the queue lhcb_queue did not start in time.",
        "shortfalls": "",
        "failures": 3,
        "free_slots": 5,
        "asked_at": None,
        "ask_after": until,
        "send_after": until,
    }
    before_its_first_round = {name: value for name, value in found[1].items() if name in {"trouble", "failures"}}
    assert before_its_first_round == {"trouble": None, "failures": None}
    assert len(administration.operator.get(LIST).json()["results"]) == 3


def test_the_list_has_filters_and_pages(administration: Administration) -> None:
    manager = administration.manager
    make_ce(name="another.org", site=administration.own.site)

    def names(query: str) -> list[str]:
        return [each["ce"] for each in manager.get(f"{LIST}?{query}").json()["results"]]

    assert names("site=lhcb.org") == ["another.org", "ce.lhcb.org"]
    assert names("site=lhcb.org&ce=ce.lhcb.org") == ["ce.lhcb.org"]
    assert names("site=atlas.org") == []
    first = manager.get(f"{LIST}?page_size=1").json()
    assert [each["ce"] for each in manager.get(first["next"]).json()["results"]] == ["ce.lhcb.org"]
    refused = manager.get(f"{LIST}?sight=lhcb.org")
    assert (refused.status_code, [*refused.json()["errors"]]) == (400, ["sight"])


def test_the_back_off_ends_at_once(
    administration: Administration,
    paused: CEHealth,
    started_rounds: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    assert is_paused(paused)
    with django_capture_on_commit_callbacks(execute=True):
        answer = administration.manager.post(ASK_AGAIN, {})
    assert answer.status_code == 200, answer.json()
    after = {name: answer.json()[name] for name in ("ask_after", "send_after", "stalls", "failures")}
    assert after == {"ask_after": None, "send_after": None, "stalls": "", "failures": 3}
    assert not is_paused(paused)
    assert started_rounds == [paused.pk]
    assert administration.manager.post(ASK_AGAIN, {}).json() == answer.json()


def test_a_dry_run_answers_as_a_change_and_changes_nothing(
    administration: Administration,
    paused: CEHealth,
    started_rounds: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = administration.manager.post(ASK_AGAIN, {"dry_run": True})
    assert (answer.status_code, answer.json()["ask_after"]) == (200, None)
    assert is_paused(paused)
    assert started_rounds == []


def test_a_computing_element_without_a_round_yet_gets_one(
    administration: Administration,
    started_rounds: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    new = make_ce(name="new.org", site=administration.own.site)
    with django_capture_on_commit_callbacks(execute=True):
        answer = administration.manager.post("/api/v1/sites/lhcb.org/ces/new.org/ask-again/", {})
    assert (answer.status_code, answer.json()["trouble"]) == (200, None)
    assert started_rounds == [new.pk]


def test_a_shared_site_is_for_operators(administration: Administration, paused: CEHealth) -> None:
    administration.own.site.vos.add(administration.other.vo)
    refused = administration.manager.post(ASK_AGAIN, {})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "ask an operator" in refused.json()["detail"]
    assert is_paused(paused)
    assert administration.operator.post(ASK_AGAIN, {}).status_code == 200
    assert not is_paused(paused)


def test_others_learn_and_change_nothing(administration: Administration, paused: CEHealth) -> None:
    other_manager = client_of(make_user(username="oscar", manages=[administration.other.vo]))
    member = client_of(make_user(groups=[make_group(vo=administration.own.vo)]))
    by_script = client_of(administration.mallory, scope=TokenScope.MANAGE)
    assert [each["ce"] for each in other_manager.get(LIST).json()["results"]] == ["ce.atlas.org"]
    assert member.get(LIST).status_code == 403
    refused = [client.post(ASK_AGAIN, {}).status_code for client in (other_manager, member, by_script)]
    assert refused == [404, 403, 403]
    missing = administration.manager.post("/api/v1/sites/lhcb.org/ces/nowhere/ask-again/", {})
    unknown = administration.manager.post(ASK_AGAIN, {"dryrun": True})
    assert (missing.status_code, unknown.status_code) == (404, 400)
    assert is_paused(paused)
