"""One log uploaded on several connections: a repeated request overtakes the first, and logs are removed in between."""

from datetime import timedelta
from functools import partial

import pytest

from pilots.domain.logs import LogPart
from pilots.models import PilotLog, PilotLogPart
from pilots.queries import stored_log
from pilots.services import logs
from tests.factories import NOW, make_pilot
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_same_chunks_at_once_are_kept_once() -> None:
    pilot = make_pilot()
    chunks = [LogPart(offset=0, text="one\n"), LogPart(offset=0, text="one\ntwo\n"), LogPart(offset=4, text="two\n")]
    at_once([partial(logs.append, chunk, pilot_id=pilot.pk, now=NOW) for chunk in chunks * 4])
    received = logs.append(LogPart(offset=0, text="one\ntwo\n"), pilot_id=pilot.pk, now=NOW)
    log = stored_log(pilot)
    assert (received, log.received) == (8, 8)
    # Only if "two" came first, was "one" lost, and then the log says so.
    assert log.text in {"one\ntwo\n", "[… 4 characters left out …]\ntwo\n"}


def test_a_log_extended_during_the_removal_of_old_logs_is_kept() -> None:
    pilots = [make_pilot() for _ in range(20)]
    for pilot in pilots:
        logs.append(LogPart(offset=0, text="old\n"), pilot_id=pilot.pk, now=NOW)
    late = NOW + timedelta(days=365)
    at_once(
        [
            partial(logs.remove_old, now=late),
            *(
                partial(logs.append, LogPart(offset=4, text="new\n"), pilot_id=pilot.pk, now=late)
                for pilot in pilots[:6]
            ),
        ]
    )
    logs.remove_old(now=late)
    assert PilotLog.objects.count() == 6
    assert PilotLogPart.objects.count() == 6
    texts = {stored_log(pilot).text for pilot in pilots[:6]}
    assert texts <= {"old\nnew\n", "[… 4 characters left out …]\nnew\n"}
