"""The system of a run: its configuration and its settings."""

from collections.abc import Mapping
from typing import Any

USERS = {"alice": ["physics"], "bob": ["production"], "charlie": ["physics"]}
PASSWORD = "secret-of-the-chaos"
SIMULATED_SITE, REAL_SITE = "LCG.Simulated.org", "LCG.Real.org"
SIMULATED_PLACE = {"vo": "lhcb", "site": SIMULATED_SITE, "ce": "ce.simulated.org", "queue": "main"}
REGISTER = "register-simulated-pilots"
#: A tag of jobs that no pilot has.
PARKED_TAG = "parked"
LEASE_S = 20
GRACE_S = 5
#: Everything often, and leases that are soon over.
SETTINGS = {
    "WMS_HEARTBEAT_S": "2",
    "WMS_MATCH_RETRY_AFTER_S": "1",
    "WMS_LEASE_FIRST_S": str(LEASE_S),
    "WMS_LEASE_S": str(LEASE_S),
    "WMS_LEASE_GRACE_S": str(GRACE_S),
    "WMS_PILOT_LOST_S": "30",
    "WMS_MAX_RESCHEDULES": "1000",
    "WMS_MAX_PILOT_DEATHS": "1000",
    "WMS_RESCHEDULE_DELAY_S": "1",
    "WMS_RESCHEDULE_DELAY_MAX_S": "2",
    "WMS_RESCHEDULE_ELSEWHERE_S": "0",
    "WMS_BLACK_HOLE_FAILURES": "0",
    "WMS_SANDBOX_MIN_FREE_MB": "1",
}


def configuration(*, pilots: int, agents: int) -> Mapping[str, Any]:
    """Return the configuration: a site for simulated pilots, and one with a computing element of this machine.

    Args:
        pilots: number of simulated pilots; a limit is below it.
        agents: most real agents at a time.
    """
    real = {"type": "local", "options": {"max_processes": max(1, agents), "max_idle_s": 5, "node_processors": 4}}
    queue = {"name": "main", "cpu_time_s": 100_000, "memory_mb": 2000}
    return {
        "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
        "groups": [
            {"name": "physics", "vo": "lhcb", "priority": 1000},
            {"name": "production", "vo": "lhcb", "priority": 3000, "properties": ["JOB_SHARING"]},
        ],
        "users": [
            {"username": name, "password": PASSWORD, "groups": groups, "default_group": groups[0]}
            for name, groups in USERS.items()
        ],
        "sites": [
            {
                "name": SIMULATED_SITE,
                "tokens": {"register": REGISTER},
                # No director sends pilots there; of those whose registration got lost the server hears nothing more.
                "ces": [{"name": SIMULATED_PLACE["ce"], "type": "local", "queues": [{**queue, "max_pilots": 10_000}]}],
            },
            {
                "name": REAL_SITE,
                "ces": [{"name": "ce.real.org", **real, "queues": [{**queue, "max_pilots": agents}]}],
            },
        ],
        "directors": [{"name": "real", "kind": "site", "sites": [REAL_SITE]}],
        "limits": [
            {"scope": {"site": SIMULATED_SITE}, "running": max(1, pilots - 2)},
            {"scope": {"vo": "lhcb"}, "waiting": 100_000},
        ],
    }
