"""Concurrent reports of one pilot: its processes report flaws while it reports the check of its node."""

from functools import partial

import pytest

from pilots.services.reports import NodeCheck, NodeFlaw, leave, record_flaw, record_node_check
from tests.factories import NOW, make_pilot
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_concurrent_node_problems_and_checks_lose_nothing() -> None:
    pilot = make_pilot()
    look = NodeCheck(host_name="wn1", ok=True, node={"processors": 8})
    flaws = [NodeFlaw(name="software", detail=str(number)) for number in range(8)]
    at_once(
        [
            *(partial(record_flaw, flaw, pilot_id=pilot.pk, now=NOW) for flaw in flaws),
            *[partial(record_node_check, look, pilot_id=pilot.pk, now=NOW)] * 4,
        ]
    )
    pilot.refresh_from_db()
    assert sorted(flaw["detail"] for flaw in pilot.node["flaws"]) == [str(number) for number in range(8)]
    assert (pilot.node["processors"], pilot.host_name) == (8, "wn1")


def test_the_first_of_concurrent_end_reports_is_kept() -> None:
    pilot = make_pilot()
    words = [partial(leave, pilot_id=pilot.pk, reason=f"try {n}", failed=n % 2 == 0, now=NOW) for n in range(6)]
    answers = {(told.status, told.status_reason) for told in at_once(words)}
    pilot.refresh_from_db()
    assert answers == {(pilot.status, pilot.status_reason)}
