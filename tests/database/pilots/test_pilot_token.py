"""`manage.py pilot_token`, and the end of a pilot."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import ProtectedError

from pilots.domain.pilot import MAY_END, PilotStatus
from pilots.models import Pilot
from pilots.services.reports import end_pilot
from pilots.services.tokens import credential_of
from resources.domain.enums import PilotType, ResourceState
from tests.factories import NOW, make_ce, make_group, make_pilot, make_queue, make_site, make_user, make_vo


def pilot_token(*arguments: str) -> str:
    out, err = StringIO(), StringIO()
    call_command("pilot_token", *arguments, stdout=out, stderr=err)
    assert "until" in err.getvalue()
    return out.getvalue().strip()


@pytest.mark.django_db
def test_a_generic_pilot_is_made_for_a_day() -> None:
    vo = make_vo()
    credential = credential_of(pilot_token("--vo", vo.name))
    pilot = Pilot.objects.get(pk=credential.pilot_id)
    assert (pilot.vo, pilot.pilot_type, pilot.queue, pilot.status) == (vo, PilotType.GENERIC, None, PilotStatus.RUNNING)
    left = credential.expires_at - datetime.now(tz=UTC)
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)


@pytest.mark.django_db
def test_hours_lengthen_or_shorten_its_life() -> None:
    credential = credential_of(pilot_token("--vo", make_vo().name, "--hours", "2"))
    assert credential.expires_at - datetime.now(tz=UTC) <= timedelta(hours=2)


@pytest.mark.django_db
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_token_can_be_made_for_a_place(levels: int) -> None:
    queue = make_queue()
    names = {"--site": queue.ce.site.name, "--ce": queue.ce.name, "--queue": queue.name}
    pilot_token("--vo", make_vo().name, *[word for pair in list(names.items())[:levels] for word in pair])
    pilot = Pilot.objects.get()
    expected = [(queue.ce.site, None, None), (queue.ce.site, queue.ce, None), (None, None, queue)]
    assert (pilot.site, pilot.ce, pilot.queue) == expected[levels - 1]
    # At a queue, one that has started and is silent would be given up.
    assert (pilot.started_at is None) == (levels == 3)


@pytest.mark.django_db
@pytest.mark.parametrize("level", ["site", "ce"])
def test_a_place_is_kept_while_a_pilot_made_for_it_lives(level: str) -> None:
    queue = make_queue()
    pilot = make_pilot(site=queue.ce.site, ce=queue.ce if level == "ce" else None)
    place = queue.ce.site if level == "site" else queue.ce
    with pytest.raises(ProtectedError):
        place.delete()
    with transaction.atomic():
        end_pilot(pilot.pk, status=PilotStatus.DONE, reason="", now=NOW)
    place.delete()
    pilot.refresh_from_db()
    assert (pilot.site if level == "site" else pilot.ce) is None


@pytest.mark.django_db
def test_a_private_pilot_is_bound_to_owner_and_group() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    pilot_token("--vo", group.vo.name, "--group", group.name, "--owner", alice.username)
    pilot = Pilot.objects.get()
    assert (pilot.group, pilot.owner, pilot.pilot_type) == (group, alice, PilotType.PRIVATE)


@pytest.mark.django_db
def test_a_group_that_shares_jobs_needs_no_owner() -> None:
    group = make_group(shares_jobs=True)
    pilot_token("--vo", group.vo.name, "--group", group.name)
    pilot = Pilot.objects.get()
    assert (pilot.group, pilot.owner) == (group, None)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--vo", "lhbc"], 'Did you mean "lhcb"'),
        (["--vo", "lhcb", "--group", "lhcb_usr"], 'Did you mean "lhcb_user"'),
        (["--vo", "lhcb", "--group", "of_another_vo"], "has no group"),
        (["--vo", "lhcb", "--group", "lhcb_user"], "name the owner"),
        (["--vo", "lhcb", "--group", "lhcb_user", "--owner", "alcie"], 'Did you mean "alice"'),
        (["--vo", "lhcb", "--group", "lhcb_user", "--owner", "charlie"], "has no member"),
        (["--vo", "lhcb", "--owner", "alice"], "name the group too"),
        (["--vo", "lhcb", "--site", "LCG.CERM.ch"], 'Did you mean "LCG.CERN.ch"'),
        (["--vo", "lhcb", "--site", "LCG.OTHER.org"], "No site that serves your VO"),
        (["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce02"], 'Did you mean "ce01"'),
        (["--vo", "lhcb", "--ce", "ce01"], "Name the site of the computing element"),
        (["--vo", "lhcb", "--site", "LCG.CERN.ch", "--queue", "grid"], "the computing element of the queue"),
        (["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "private"], "private pilots only"),
        (["--vo", "lhcb", "--site", "LCG.BANNED.org"], "is banned"),
        (["--vo", "lhcb", "--hours", "0"], "--hours"),
        (["--vo", "lhcb", "--hours", "100000"], "--hours"),
        (["--vo", "lhcb", "--hours", "soon"], "--hours: 'soon' is not a whole number from 1 to 744."),
    ],
)
def test_contradictory_options_make_no_pilot(arguments: list[str], sentence: str) -> None:
    lhcb = make_vo(name="lhcb")
    cern = make_site(name="LCG.CERN.ch", vos=[lhcb])
    make_queue(name="grid", ce=make_ce(name="ce01", site=cern))
    make_ce(name="private", site=cern, pilot_types=[PilotType.PRIVATE])
    make_site(name="LCG.OTHER.org", vos=[make_vo()])
    make_site(name="LCG.BANNED.org", state=ResourceState.BANNED)
    make_user(username="alice", groups=[make_group(name="lhcb_user", vo=lhcb)])
    make_user(username="charlie", groups=[make_group(name="of_another_vo")])
    with pytest.raises(CommandError, match=sentence):
        pilot_token(*arguments)
    assert not Pilot.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(MAY_END))
def test_a_pilot_ends_once(status: PilotStatus) -> None:
    pilot = make_pilot()
    with transaction.atomic():
        assert end_pilot(pilot.pk, status=status, reason="r" * 300, now=NOW)
        assert not end_pilot(pilot.pk, status=PilotStatus.ABORTED, reason="late", now=NOW + timedelta(hours=1))
    pilot.refresh_from_db()
    assert (pilot.status, pilot.status_reason, pilot.ended_at) == (status, "r" * 255, NOW)


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(set(PilotStatus) - MAY_END))
def test_a_non_final_status_ends_no_pilot(status: PilotStatus) -> None:
    pilot = make_pilot()
    with transaction.atomic(), pytest.raises(ValueError, match="not the end"):
        end_pilot(pilot.pk, status=status, reason="", now=NOW)
    pilot.refresh_from_db()
    assert pilot.ended_at is None
