"""Actions of the admin on pilots, nodes and computing elements."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from matching.models import PilotEfficiency
from pilots.models import BlackHole, CEHealth, Pilot, PilotSecret
from pilots.tasks import serve_ce
from resources.models import Queue
from tests.admin.conftest import RowsOfVO, act, change, changelist
from tests.factories import NOW, make_job, make_pilot, make_queue
from wms.accounts.models import ConfigurationChange
from wms.jobs.domain.lifecycle import JobStatus

pytestmark = pytest.mark.django_db


@pytest.fixture
def started_rounds(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: object) -> list[int]:
    """Return the list to which each CE is added for which a round is started."""
    found: list[int] = []
    monkeypatch.setattr(serve_ce, "apply_async", lambda kwargs, **_: found.append(kwargs["ce_id"]))
    return found


def test_a_manager_drains_pilots_of_the_own_vo(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    for vo_rows in (mine, theirs):
        act(manager, vo_rows.pilot, "drain", confirmed="1", reason="old image")
    drained = Pilot.objects.get(drained_at__isnull=False)
    assert (drained, drained.drain_reason) == (mine.pilot, "drained by bob: old image")


def test_an_operator_drains_any_pilot(operator: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    for vo_rows in (mine, theirs):
        page = act(operator, vo_rows.pilot, "drain", confirmed="1", reason="old image")
    assert page.status_code == 302
    assert Pilot.objects.filter(drained_at__isnull=False).count() == 2
    for chosen in ("drained_at__isempty", "black_hole__isempty"):
        assert operator.get(changelist(Pilot), {chosen: "0"}).status_code == 200


def test_a_manager_kills_pilots_of_the_own_vo(
    manager: Client,
    mine: RowsOfVO,
    theirs: RowsOfVO,
    started_rounds: list[int],
    django_capture_on_commit_callbacks: object,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        for vo_rows in (mine, theirs):
            act(manager, vo_rows.pilot, "kill", confirmed="1", reason="stuck")
    revoked = Pilot.objects.get(revoked_at__isnull=False)
    assert (revoked, revoked.status_reason) == (mine.pilot, "Revoked by bob: stuck")
    assert started_rounds == [mine.ce.pk]


@pytest.mark.parametrize("action", ["drain", "kill"])
def test_pilots_are_drained_and_killed_for_a_reason_after_their_number_was_shown(
    action: str, manager: Client, mine: RowsOfVO
) -> None:
    asked = act(manager, mine.pilot, action).content.decode()
    assert "1 pilot:" in asked
    assert f"1 {mine.pilot.status}" in asked
    assert "This field is required." in act(manager, mine.pilot, action, confirmed="1").content.decode()
    mine.pilot.refresh_from_db()
    assert (mine.pilot.drained_at, mine.pilot.revoked_at) == (None, None)


def test_the_manager_of_the_site_lifts_a_black_hole(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    Pilot.objects.filter(pk=mine.pilot.pk).update(black_hole=mine.black_hole)
    for vo_rows in (mine, theirs):
        act(manager, vo_rows.black_hole, "lift")
    lifted = BlackHole.objects.get(lifted_at__isnull=False)
    assert (lifted, lifted.lifted_by) == (mine.black_hole, "bob")
    mine.pilot.refresh_from_db()
    assert mine.pilot.black_hole is None


def test_the_reason_of_lifting_and_of_contacting_again_is_in_the_history(manager: Client, mine: RowsOfVO) -> None:
    assert 'name="reason"' in manager.get(change(mine.black_hole)).content.decode()
    assert 'name="reason"' in manager.get(changelist(CEHealth)).content.decode()
    act(manager, mine.black_hole, "lift", reason="new disk")
    act(manager, mine.ce_health, "ask_again", reason="slurmctld restarted")
    kept = [each.facts["changes"]["reason"] for each in ConfigurationChange.objects.order_by("-pk")[:2]]
    assert kept == ["slurmctld restarted", "new disk"]


def test_a_manager_may_not_lift_a_black_hole_at_a_shared_site(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    mine.site.vos.add(theirs.vo)
    assert mine.black_hole.host_name in manager.get(changelist(BlackHole)).content.decode()
    act(manager, mine.black_hole, "lift")
    act(manager, mine.ce_health, "ask_again")
    assert not BlackHole.objects.filter(lifted_at__isnull=False).exists()


def test_ask_again_contacts_a_computing_element_at_once(
    operator: Client,
    manager: Client,
    mine: RowsOfVO,
    theirs: RowsOfVO,
    started_rounds: list[int],
    django_capture_on_commit_callbacks: object,
) -> None:
    CEHealth.objects.update(ask_after=NOW, send_after=NOW)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        for vo_rows in (mine, theirs):
            act(manager, vo_rows.ce_health, "ask_again")
    assert started_rounds == [mine.ce.pk]
    assert list(CEHealth.objects.filter(ask_after=None, send_after=None)) == [mine.ce_health]
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        act(operator, theirs.ce_health, "ask_again")
    assert started_rounds == [mine.ce.pk, theirs.ce.pk]


def test_a_computing_element_whose_pilots_the_site_starts_is_not_queried(operator: Client, mine: RowsOfVO) -> None:
    def page() -> str:
        return operator.get(changelist(CEHealth)).content.decode()

    not_queried = "not queried: the site starts the pilots"
    Pilot.objects.update(cleaned_at=NOW)
    assert not_queried not in page()
    Queue.objects.filter(ce=mine.ce).update(max_waiting_pilots=0)
    assert page().count(not_queried) == 1
    # It is queried as long as a pilot that was sent is left, or another queue gets some.
    sent = make_pilot(vo=mine.vo, queue=mine.ce.queues.get())
    PilotSecret.objects.create(pilot=sent, digest=b"0" * 32, expires_at=NOW)
    assert not_queried not in page()
    sent.delete()
    make_queue(ce=mine.ce, max_waiting_pilots=1)
    assert not_queried not in page()


def test_the_efficiency_page_groups_by_the_chosen_property(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    now = timezone.now()
    Pilot.objects.update(submitted_at=now, started_at=now, matched_at=now)
    make_job(group=mine.group, status=JobStatus.DONE)
    page = manager.get(changelist(PilotEfficiency)).content.decode()
    assert '<th scope="row">lhcb.org</th>' in page
    assert '<td class="number">100%</td><td class="number">1</td>' in page
    page = manager.get(changelist(PilotEfficiency), {"by": "site,ce,queue", "hours": "1"}).content.decode()
    assert re.findall(r'<th scope="row">(.*?)</th>', page) == ["lhcb.org", "ce.lhcb.org", "lhcb_queue"]
    assert "atlas" not in page
    Pilot.objects.update(submitted_at=NOW)
    page = manager.get(changelist(PilotEfficiency), {"by": "nonsense"}).content.decode()
    assert "No pilots were submitted in this time." in page
