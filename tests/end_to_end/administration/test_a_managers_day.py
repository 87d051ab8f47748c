"""What those decide who answer for a VO or a site, each in a browser and again by `wms admin`, on a running system."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.end_to_end.administration.conftest import HER_SITE
from tests.end_to_end.administration.people import Lease, Person, Stop, WithWms
from tests.end_to_end.pilots.grid import System, until
from tests.end_to_end.stack.running import PROJECT, environment, environment_of
from tests.pace import within

VO, GROUP = "lhcb", "lhcb_user"
CERN, GRIDKA, CNAF = "LCG.CERN.ch", "LCG.GRIDKA.de", "LCG.CNAF.it"
#: Pilots of GRIDKA and of CNAF, of one core each.
SLOTS = 2
#: Seconds for which payloads sleep: longer than the tests.
LONG_S = 7200
#: A limit that is there already, as a file has it, which has all limits.
KEPT = "{scope: {vo: lhcb}, waiting: 1000}"
ADD_LIMIT = "/admin/taskqueues/limit/add/"
SITE_FORM = "/admin/resources/site/{site}/change/"
GROUP_FORM = "/admin/accounts/group/{group}/change/"
#: Applies files as the command `configure` does, and prints what is said of each.
CONFIGURE_EACH = """
import io, sys
import django
from django.core.management import CommandError, call_command
django.setup()
for file in sys.argv[1:]:
    said = io.StringIO()
    try:
        call_command("configure", file, stderr=said)
    except CommandError as error:
        said.write(str(error))
    print(said.getvalue(), end="\\0")
"""
NOBODYS = "a limit on a type that no job has"
#: What each says before anything is saved, while of alice's three jobs at GRIDKA two run.
STOPS: Final = {
    "a limit that closes the VO": Stop(
        says="The limit on the VO lhcb lets no job start. 2 jobs run; 1 job waits.",
        form=(ADD_LIMIT, {"VO": VO, "Running": "0"}),
        command=("limit", "--vo", VO, "--running", "0"),
        file=f"limits: [{KEPT}, {{scope: {{vo: lhcb}}, running: 0}}]",
    ),
    "a limit that closes a site": Stop(
        says="lets no job start. 2 jobs run; 1 job waits that can run nowhere else.",
        form=(ADD_LIMIT, {"VO": VO, "Site": GRIDKA, "Running": "0"}),
        command=("limit", "--vo", VO, "--site", GRIDKA, "--running", "0"),
        file=f"limits: [{KEPT}, {{scope: {{vo: lhcb, site: LCG.GRIDKA.de}}, running: 0}}]",
    ),
    "a limit that closes a group": Stop(
        says="s of CPU time; 1 job waits.",
        form=(ADD_LIMIT, {"Group": GROUP, "CPU (s) per day": "0"}),
        command=("limit", "--group", GROUP, "--cpu-per-day", "0"),
        file=f"limits: [{KEPT}, {{scope: {{group: lhcb_user}}, cpu_s_per_day: 0}}]",
    ),
    NOBODYS: Stop(
        says='No waiting job has the type "Usr". Did you mean "User"? The limit is on nobody.',
        form=(ADD_LIMIT, {"VO": VO, "Job type": "Usr", "Running": "5"}),
        command=("limit", "--vo", VO, "--job-type", "Usr", "--running", "5"),
        file=f"limits: [{KEPT}, {{scope: {{vo: lhcb, job_type: Usr}}, running: 5}}]",
    ),
    "a priority of zero": Stop(
        says="No job of the group lhcb_user starts: a priority of 0 gives it no share. 1 job waits.",
        form=(GROUP_FORM, {"Priority": "0", "Reason": "a pause"}),
        command=("priority", GROUP, "0", "--because", "a pause"),
        file="groups: [{name: lhcb_user, vo: lhcb, priority: 0}]",
    ),
    "an expression that is never true": Stop(
        says="TRUE for no advertisement and no job, so no job would ever start; ban the site instead",
        form=(SITE_FORM, {"Throttle policy": "custom", "Throttle requirements": "CurMatches < 5 && false"}),
        command=("throttle", GRIDKA, "--policy", "custom", "--requirements", "CurMatches < 5 && false"),
        file="sites: [{name: LCG.GRIDKA.de, throttle: {policy: custom, requirements: CurMatches < 5 && false}}]",
    ),
    "an expression with a name that does not exist": Stop(
        says='Did you mean "CurMatches"?',
        form=(SITE_FORM, {"Throttle policy": "custom", "Throttle requirements": "CurMatchez < 5"}),
        command=("throttle", GRIDKA, "--policy", "custom", "--requirements", "CurMatchez < 5"),
        file="sites: [{name: LCG.GRIDKA.de, throttle: {policy: custom, requirements: CurMatchez < 5}}]",
    ),
    "a second limit of the same kind": Stop(
        says="for the same scope",
        form=(ADD_LIMIT, {"VO": VO, "Waiting": "5"}),
        command=("limit", "--vo", VO, "--waiting", "5"),
        file=f"limits: [{KEPT}, {{scope: {{vo: lhcb}}, waiting: 5}}]",
    ),
    "parameters that no VO reads": Stop(
        says='"nope"',
        form=(SITE_FORM, {"Parameters by VO": '{"nope": {"Memory": 5}}'}),
        command=(),
        file="sites: [{name: LCG.GRIDKA.de, vo_parameters: {nope: {Memory: 5}}}]",
    ),
}


def submit(system: System, owner: str, site: str, *, jobs: int = 1, sleep_s: int = LONG_S, **more: bool) -> list[int]:
    """Submit jobs that sleep at a site."""
    body = {"executable": "/bin/sleep", "arguments": str(sleep_s), "cpu_time_s": 3000, "sites": [site]}
    return system.submit(owner, {**body, "parameters": {"count": jobs}}, **more)


def states_of(system: System, jobs: Sequence[int]) -> list[str]:
    every = system.jobs()
    return sorted(every[job]["status"] for job in jobs)


def run(system: System, jobs: Sequence[int], *, states: Sequence[str]) -> None:
    """Wait until the jobs have these statuses, in any order."""
    until(lambda: states_of(system, jobs) == sorted(states), what=lambda: str(states_of(system, jobs)))


def sleepers(seconds: int) -> int:
    """Return the number of payloads that sleep for so long."""
    words = ["/bin/sleep", str(seconds)]
    return sum(process.info["cmdline"] == words for process in psutil.process_iter(["cmdline"]))


# ---- Sites -----------------------------------------------------------------------------------------------------------


def test_a_manager_bans_a_site_for_two_hours_and_its_jobs_say_why(system: System, mary: Person) -> None:
    banned = mary.ban(CNAF, reason="storage is moved")
    assert "banned until" in banned
    assert "storage is moved" in banned
    (job,) = submit(system, "alice", CNAF, is_warned=True)
    why = mary.why(job)
    assert "banned" in why
    assert "storage is moved" in why
    assert "Site LCG.CNAF.it is active." in mary.allow(CNAF)
    run(system, [job], states=["Running"])


def test_a_manager_sets_a_throttle_and_sees_it_fill(system: System, mary: Person) -> None:
    assert "hrottle" in mary.hold(CNAF, most_matches=1)
    assert mary.gauge(CNAF) is None
    jobs = submit(system, "alice", CNAF, jobs=SLOTS)
    until(lambda: mary.gauge(CNAF) == (1, 1))
    run(system, jobs, states=["Running", "Waiting"])
    (waiting,) = (job for job in jobs if system.jobs()[job]["status"] == "Waiting")
    assert "throttle" in mary.why(waiting)
    assert "hrottle" in mary.let_go(CNAF)
    run(system, jobs, states=["Running", "Running"])


def test_an_administrator_of_a_site_drains_it_and_sees_no_other(system: System, sally: Person) -> None:
    (job,) = submit(system, "alice", GRIDKA)
    drained = sally.drain(HER_SITE, reason="new kernel")
    assert "draining" in drained
    assert "new kernel" in drained
    (site,) = system.rows("SELECT state, state_reason FROM resources_site WHERE name = %s", HER_SITE)
    assert site == {"state": "draining", "state_reason": "new kernel"}
    assert sally.is_kept_out_of(GRIDKA, job)
    assert f"Site {HER_SITE} is active." in sally.allow(HER_SITE)


# ---- What stops jobs -------------------------------------------------------------------------------------------------


def decided(system: System) -> list[object]:
    """Return what the stops would change."""
    return [
        system.rows("SELECT * FROM taskqueues_limit ORDER BY id"),
        system.rows("SELECT name, priority FROM accounts_group ORDER BY id"),
        system.rows("SELECT name, throttle_policy, vo_parameters FROM resources_site ORDER BY id"),
    ]


@pytest.fixture
def one_waits(system: System) -> int:
    """Return a job of alice that waits for two others at its only site."""
    jobs = submit(system, "alice", GRIDKA, jobs=SLOTS + 1)
    run(system, jobs, states=["Running"] * SLOTS + ["Waiting"])
    return next(job for job in jobs if system.jobs()[job]["status"] == "Waiting")


def test_what_would_stop_jobs_in_silence_is_refused_or_asked_about(
    system: System, mary: Person, olga: WithWms, one_waits: int, subtests: pytest.Subtests
) -> None:
    olga.run("admin", "limit", "--vo", VO, "--waiting", "1000")
    before = decided(system)
    (site,) = system.rows("SELECT id FROM resources_site WHERE name = %s", GRIDKA)
    (group,) = system.rows("SELECT id FROM accounts_group WHERE name = %s", GROUP)
    for name, stop in STOPS.items():
        with subtests.test(name):
            for said in mary.try_to(stop.at(site=site["id"], group=group["id"])):
                assert stop.says in said
            assert decided(system) == before
    olga.reopen(VO)


def test_the_command_configure_refuses_what_would_stop_jobs(system: System, tmp_path: Path, one_waits: int) -> None:
    before = decided(system)
    # A file may be for a system without jobs: of types that none has the command only warns.
    stops = {tmp_path / f"{name}.yaml": stop for name, stop in STOPS.items() if name != NOBODYS}
    for file, stop in stops.items():
        file.write_text(stop.file)
    ran = subprocess.run(
        [sys.executable, "-c", CONFIGURE_EACH, *stops],
        cwd=PROJECT,
        env={**environment(), **environment_of(system.data), "DJANGO_SETTINGS_MODULE": "wms.settings"},
        capture_output=True,
        text=True,
        timeout=within(120),
        check=False,
    )
    said = ran.stdout.rstrip("\0").split("\0")
    assert len(said) == len(stops), ran.stderr
    for words, stop in zip(said, stops.values(), strict=True):
        assert stop.says in words
    assert decided(system) == before


def test_jobs_of_a_closed_vo_say_first_that_a_limit_closes_it(system: System, mary: Person, one_waits: int) -> None:
    mary.close(VO)
    closed = "a limit closes its VO, group or site: at most 0 jobs of the VO lhcb may run at a time, and 2 do"
    try:
        assert closed in mary.why(one_waits)
        assert "jobs of the VO lhcb may run at a time, and 2 do" in mary.held_back()
    finally:
        mary.reopen(VO)
    assert "limit closes" not in mary.why(one_waits)


# ---- People ----------------------------------------------------------------------------------------------------------


def test_a_manager_suspends_a_user_whose_payloads_die(system: System, mary: Person) -> None:
    slept_s = LONG_S + 1
    jobs = submit(system, "bob", GRIDKA, jobs=SLOTS + 1, sleep_s=slept_s)
    until(lambda: sleepers(slept_s) == SLOTS)
    assert mary.would_suspend("bob") == (SLOTS, 1)
    assert mary.suspend("bob", reason="stolen account") == (SLOTS, 1)
    run(system, jobs, states=["Killed"] * SLOTS + ["Waiting"])
    until(lambda: sleepers(slept_s) == 0)
    assert "can be matched again: 1." in mary.restore("bob")
    until(lambda: sleepers(slept_s) == 1)


def test_a_manager_finds_who_ran_on_a_host_yesterday(system: System, mary: Person, olga: WithWms) -> None:
    (job,) = submit(system, "alice", CERN)
    run(system, [job], states=["Running"])
    first = system.pilot_of(job)
    assert first is not None
    olga.run("admin", "pilots", "kill", str(first["id"]), "--because", "its host fails")
    until(lambda: (now := system.pilot_of(job)) is not None and now["id"] != first["id"])
    # Of the attempt that was given back, as if it had been yesterday, on another host.
    host = f"node{job}.cern.ch"
    system.write("UPDATE pilots_pilot SET host_name = %s WHERE id = %s", host, first["id"])
    system.write(
        "UPDATE matching_match SET leased_at = leased_at - interval '1 day', ended_at = ended_at - interval '1 day'"
        " WHERE job_id = %s AND pilot_id = %s",
        job,
        first["id"],
    )
    # The pilot may have run jobs of other tests, too; of this job it had this attempt only.
    of_the_job = [lease for lease in mary.leases_on(host) if lease.job == job]
    assert of_the_job == [Lease(job=job, owner="alice", host=host)]
