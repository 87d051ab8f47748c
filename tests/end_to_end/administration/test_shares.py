"""A share that a manager changes, and the share that is delivered, in a browser and again by `wms admin`."""

from collections import Counter

import pytest

from tests.end_to_end.administration.people import Person
from tests.end_to_end.pilots.grid import System, until

GROUP = "lhcb_user"
#: Jobs of each group that wait, and matches whose parts are near the shares: with a standard deviation of 3 %.
BACKLOG, MATCHES = 2000, 200
#: Of what takes minutes.
NIGHTLY_S = 900.0


@pytest.mark.nightly  # the delivered share is counted once a minute
def test_a_manager_changes_a_share_and_sees_the_delivered_share_follow(system: System, mary: Person) -> None:
    """Both groups always have waiting jobs, of the same CPU segment, for the same pilots: matches follow the shares.

    Of 1000 : 3000 the users get a quarter of the matches, and of 6000 : 3000 two thirds. All jobs take the same time.
    """
    for owner in ("alice", "charlie"):
        body = {"executable": "/bin/sleep", "arguments": "1", "cpu_time_s": 3000, "parameters": {"count": BACKLOG}}
        system.submit(owner, body)
    first = matches_of(system)
    until(lambda: (matches_of(system) - first).total() >= MATCHES, NIGHTLY_S)
    so_far = matches_of(system)
    assert (so_far - first)[GROUP] < 0.45 * (so_far - first).total()
    until(lambda: mary.delivered(GROUP) > 0, NIGHTLY_S)
    delivered = mary.delivered(GROUP)
    would_be = mary.would_share(GROUP, 6000)
    assert would_be == pytest.approx({GROUP: 63.2, "lhcb_prod": 31.6, "lhcb_calib": 5.3}, abs=0.1)
    said = mary.share_out(GROUP, 6000, reason="a campaign")
    changed = matches_of(system)
    assert "1000 → 6000" in said
    assert "22.2 % → 63.2 %" in said
    until(lambda: mary.delivered(GROUP) > delivered + 5, NIGHTLY_S)
    until(lambda: (matches_of(system) - changed).total() >= MATCHES, NIGHTLY_S)
    since = matches_of(system) - changed
    assert since[GROUP] > 0.5 * since.total()
    mary.share_out(GROUP, 1000, reason="the campaign has ended")


def matches_of(system: System) -> Counter[str]:
    """Return the matches of each group until now."""
    rows = system.rows(
        "SELECT g.name, count(*) AS matches FROM matching_match m JOIN jobs_job j ON j.id = m.job_id"
        " JOIN accounts_group g ON g.id = j.group_id GROUP BY g.name"
    )
    return Counter({row["name"]: row["matches"] for row in rows})
