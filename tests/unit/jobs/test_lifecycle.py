"""The status machine of jobs, compared with the documented table."""

from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.lifecycle import FINAL, LEASED, TRANSITIONS, JobStatus, sources_of

#: The transitions as the first design had them.
DOCUMENTED = """
| Received | Checking, Waiting, Failed, Killed, Deleted |
| Checking | Waiting, Failed, Killed, Deleted |
| Waiting | Matched, Held, Checking, Failed, Killed, Deleted |
| Held | Waiting, Killed, Deleted |
| Matched | Running, Completing, Failed, Rescheduled, Killed, Stalled |
| Running | Completing, Done, Failed, Rescheduled, Killed, Stalled |
| Stalled | Matched, Running, Completing, Failed, Rescheduled, Killed |
| Completing | Done, Failed, Rescheduled, Killed, Stalled |
| Rescheduled | Checking, Waiting, Failed, Killed |
| Failed | Rescheduled, Deleted |
| Done, Killed | Deleted |
| Deleted | |
"""


def _table() -> dict[JobStatus, frozenset[JobStatus]]:
    table = {}
    for line in DOCUMENTED.strip().splitlines():
        _, sources, targets, _ = line.split("|")
        for source in sources.split(","):
            names = [name.strip() for name in targets.split(",") if name.strip()]
            table[JobStatus(source.strip())] = frozenset(map(JobStatus, names))
    return table


def test_the_table_is_the_one_of_the_design() -> None:
    assert dict(TRANSITIONS) == _table()


@given(st.data())
def test_no_walk_through_the_table_leaves_deleted(data: st.DataObject) -> None:
    status = JobStatus.RECEIVED
    deleted = False
    for _ in range(30):
        following = sorted(TRANSITIONS[status])
        if not following:
            break
        status = data.draw(st.sampled_from(following))
        deleted = deleted or status is JobStatus.DELETED
    assert not deleted or status is JobStatus.DELETED


def test_every_status_is_reached_from_received() -> None:
    reached = {JobStatus.RECEIVED}
    while True:
        following = reached | {target for status in reached for target in TRANSITIONS[status]}
        if following == reached:
            break
        reached = following
    assert reached == set(JobStatus)


@given(st.sampled_from(JobStatus), st.sampled_from(JobStatus))
def test_the_sources_of_a_status_are_those_that_lead_to_it(source: JobStatus, target: JobStatus) -> None:
    assert (source in sources_of(target)) == (target in TRANSITIONS[source])


def test_a_leased_job_can_be_killed_and_rescheduled_but_not_deleted() -> None:
    for status in LEASED:
        assert TRANSITIONS[status] >= {JobStatus.KILLED, JobStatus.RESCHEDULED}
        assert JobStatus.DELETED not in TRANSITIONS[status]


def test_no_leased_status_is_final() -> None:
    assert not FINAL & LEASED
