"""The memory of a process: what ever new jobs leave behind in it."""

from datetime import timedelta

import pytest

from matching.services.rehearsal import rehearse
from matching.services.submission import submit
from taskqueues.services.index.shared import index
from tests.factories import NOW, make_ce, make_group, make_queue, make_site, make_user
from wms.jobs.domain.request import parse_submission


@pytest.mark.django_db(transaction=True)
def test_ever_new_descriptions_leave_the_memo_of_the_configuration_as_it_is() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    make_queue(ce=make_ce(site=make_site()), cpu_time_s=10**6)
    sizes = []
    for minute in range(12):
        now = NOW + timedelta(minutes=minute)
        # Each has a task queue of its own.
        request = parse_submission({"executable": "a.sh", "cpu_time_s": 500, "processors": 1, "tags": [f"tag{minute}"]})
        rehearse(request, owner=alice, coming_files={}, now=now)
        # The memo does not depend on the jobs.
        submit(parse_submission({"executable": "a.sh", "memory_mb": 500 * (minute + 1)}), owner=alice, now=now)
        sizes.append(len(index.current().memo))
    assert set(sizes[1:]) == {sizes[1]}
