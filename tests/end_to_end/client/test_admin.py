"""`wms admin` as a process, against a live server: what a manager decides, and what is refused or asked about."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pexpect
import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from pilots.models import BlackHole, CEHealth, Pilot
from resources.models import Downtime, Queue, Site
from taskqueues.models import Limit
from tests.admin.conftest import RowsOfVO, make_rows_of_vo
from tests.factories import make_black_hole, make_group, make_user
from wms.accounts.models import VO, ApiToken, Group, User

WMS = Path(__file__).resolve().parents[3] / "wms" / "client" / "wms"
CLOSED = "No job of the group lhcb_user starts: a priority of 0 gives it no share. 1 job waits."

pytestmark = pytest.mark.django_db(transaction=True)

Wms = Callable[..., Any]


@pytest.fixture
def own(db: None) -> RowsOfVO:
    rows = make_rows_of_vo("lhcb")
    Group.objects.filter(pk=rows.group.pk).update(priority=1000.0)
    make_group(name="lhcb_prod", vo=rows.vo, priority=3000.0)
    make_user(username="mallory", password="secret", manages=[rows.vo])
    return rows


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "200"}


@pytest.fixture
def wms(own: RowsOfVO, live_server: LiveServer, environment: dict[str, str]) -> Wms:
    """Return the command of Mallory, logged in to administer; it returns its lines, or with ``code`` its error."""

    def run(*arguments: str, code: int = 0, typed: str = "") -> Any:
        command = [sys.executable, "-S", str(WMS), *arguments]
        ran = subprocess.run(command, env=environment, input=typed, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stderr
        return ran.stdout.splitlines() if code == 0 else ran.stderr.strip()

    log_in = ("login", "--server", live_server.url, "--user", "mallory", "--scope", "administer")
    run(*log_in, typed="secret\n")
    assert ApiToken.objects.latest("pk").scope == "administer"
    return run


def test_a_site_and_its_levels_are_banned_drained_and_allowed(wms: Wms, own: RowsOfVO) -> None:
    assert wms("admin", "ban", "lhcb.org", "--because", "storage is moved", "--for", "2h", "--dry-run") == [
        "Nothing was changed. With the change: Site lhcb.org is banned until "
        + wms("admin", "ban", "lhcb.org", "--because", "storage is moved", "--for", "2h")[0].rpartition("until ")[2]
    ]
    site = Site.objects.get(name="lhcb.org")
    assert (site.state, site.state_reason) == ("banned", "storage is moved")
    assert wms("admin", "allow", "lhcb.org") == ["Site lhcb.org is active."]
    queue = "lhcb.org/ce.lhcb.org/lhcb_queue"
    lines = wms("admin", "drain", queue, "--because", "kernel", "--until", "2036-01-01T00:00:00Z")
    assert lines[0].startswith("Queue lhcb_queue of computing element ce.lhcb.org at site lhcb.org is draining until ")
    assert Queue.objects.get(name="lhcb_queue").state == "draining"
    assert "required: --because" in wms("admin", "ban", "lhcb.org", code=2)
    ban = ("admin", "ban", "lhcb.org", "--because", "x")
    assert "this time is past" in wms(*ban, "--until", "2020-01-01T00:00:00Z", code=1)
    assert "is no place; write SITE, SITE/CE" in wms("admin", "allow", "a/b/c/d", code=2)


def test_a_downtime_is_tried_declared_listed_and_ended(wms: Wms, own: RowsOfVO) -> None:
    place = "lhcb.org/ce.lhcb.org"
    declare = ("admin", "downtime", place, "--from", "2035-12-31T08:00:00Z", "--for", "4h", "--because", "new disks")
    words = f"Downtime of {place} from 2035-12-31 08:00 UTC to 2035-12-31 12:00 UTC: new disks"
    done = f"{words}. Jobs that run there and go on: 1; that wait and can run nowhere else: 0."
    assert wms(*declare, "--dry-run") == [f"Nothing was changed. With the change: {done}"]
    assert wms("admin", "downtime") == []  # the sentence that there is none is no output
    assert wms(*declare) == wms(*declare) == [done]
    (downtime,) = Downtime.objects.all()
    assert (downtime.ce, downtime.reason) == (own.ce, "new disks")
    (line,) = wms("admin", "downtime", "lhcb.org")
    assert line.split()[:2] == [str(downtime.pk), place]
    change = ("admin", "downtime", "--change", str(downtime.pk))
    later = done.replace("2035-12-31 12:00", "2035-12-31 18:00")
    assert wms(*change, "--until", "2035-12-31T18:00:00Z", "--dry-run") == [
        f"Nothing was changed. With the change: {later}"
    ]
    assert wms(*change, "--for", "10h") == wms(*change, "--because", "new disks") == [later]
    assert "Say what changes" in wms(*change, code=2)
    assert "or --change ID" in wms(*change, "--end", "1", code=2)
    assert "There is no such object" in wms("admin", "downtime", "--change", "999999", "--for", "1h", code=1)
    words = words.replace("12:00", "18:00")
    assert wms("admin", "downtime", "--end", str(downtime.pk)) == [f"Ended: {words}."]
    assert not Downtime.objects.exists()
    assert "give --until, or --for, and --because" in wms("admin", "downtime", place, "--for", "1h", code=2)
    assert "or --end ID, or --import FILE" in wms("admin", "downtime", place, "--end", "1", code=2)


def test_parameters_are_set_listed_and_removed(wms: Wms, own: RowsOfVO) -> None:
    parameters = ("admin", "parameters", "lhcb.org/ce.lhcb.org")
    place = "computing element ce.lhcb.org at site lhcb.org"
    assert wms(*parameters, "os=el9", "--dry-run") == [
        f"Nothing was changed. With the change: Parameters of {place}: 1 changed."
    ]
    assert wms(*parameters, "os=el9", "lhcbMemory=4000") == [f"Parameters of {place}: 2 changed."]
    wms(*parameters, 'cvmfs=["a", "b"]', "--vo", "lhcb", "--because", "new nodes")
    assert wms(*parameters) == ["\tlhcbMemory\t4000", "\tos\tel9", 'lhcb\tcvmfs\t["a", "b"]']
    assert wms(*parameters, "--vo", "lhcb") == ['lhcb\tcvmfs\t["a", "b"]']
    assert 'serves no VO "nope"' in wms(*parameters, "a=1", "--vo", "nope", code=1)
    assert "give a number" in wms(*parameters, "lhcbMemory=many", code=1)
    assert "sets no parameter" in wms(*parameters, "os", code=2)
    assert "no parameter" in wms(*parameters, "--remove", "nope", code=2)
    wms(*parameters, "--remove", "os", "--remove", "lhcbMemory")
    own.ce.refresh_from_db()
    assert (own.ce.parameters, own.ce.vo_parameters) == ({}, {"lhcb": {"cvmfs": ["a", "b"]}})


def test_managers_are_listed_and_made_by_operators_who_also_revoke_tokens(wms: Wms, own: RowsOfVO) -> None:
    assert wms("admin", "manager", "lhcb") == ["mallory\tmanager\tno"]
    assert "Only operators may do this" in wms("admin", "manager", "lhcb", "lhcb_member", code=1)
    assert "Only operators may do this" in wms("admin", "token", "lhcb_member", code=1)
    User.objects.filter(username="mallory").update(operator=True)
    made = "lhcb_member is a manager of lhcb."
    make = ("admin", "manager", "lhcb", "lhcb_member")
    assert wms(*make, "--dry-run") == [f"Nothing was changed. With the change: {made}"]
    assert wms(*make) == [made]
    assert wms("admin", "manager", "lhcb") == ["lhcb_member\tmanager\tno", "mallory\tmanager\tno"]
    assert wms(*make, "--remove") == ["lhcb_member is no manager of lhcb any more."]
    assert "Name the user" in wms("admin", "manager", "lhcb", "--remove", code=2)
    (line,) = wms("admin", "token", "lhcb_member")
    number = line.split("\t")[0]
    revoke = ("admin", "token", "lhcb_member", "--revoke", number)
    done = f"Token {number} of lhcb_member is revoked."
    assert wms(*revoke, "--dry-run") == [f"Nothing was changed. With the change: {done}"]
    assert ApiToken.objects.get(pk=number).revoked_at is None
    assert wms(*revoke) == [done]
    assert ApiToken.objects.get(pk=number).revoked_at is not None
    assert "There is no such object" in wms("admin", "token", "lhcb_member", "--revoke", "999999", code=1)
    assert wms("admin", "token", "lhcb_member", "--revoke-all") == ["All tokens of lhcb_member are revoked."]


def test_only_operators_import_downtimes(wms: Wms, tmp_path: Path) -> None:
    (tmp_path / "gocdb.xml").write_text("<results/>")
    assert "Only operators may do this" in wms("admin", "downtime", "--import", str(tmp_path / "gocdb.xml"), code=1)
    assert "cannot be read" in wms("admin", "downtime", "--import", str(tmp_path / "none.xml"), code=2)


def test_a_share_is_seen_previewed_and_changed(wms: Wms) -> None:
    assert wms("admin", "priority", "lhcb_user") == [
        "lhcb_prod\t3000\t75.0%\t75.0%\t",
        "lhcb_user\t1000\t25.0%\t25.0%\t",
    ]
    change = ("admin", "priority", "lhcb_user", "9000", "--because", "a campaign")
    effect = "lhcb_user has the share 9000; it takes effect within a second."
    assert wms(*change, "--dry-run")[0] == f"Nothing was changed. With the change: {effect}"
    assert Group.objects.get(name="lhcb_user").priority == 1000
    assert wms(*change) == [effect, "lhcb_user\t9000\t75.0%\t75.0%\t", "lhcb_prod\t3000\t25.0%\t25.0%\t"]
    assert "reason of the change by --because" in wms("admin", "priority", "lhcb_user", "5", code=2)


def test_what_stops_jobs_is_asked_about(wms: Wms, environment: dict[str, str]) -> None:
    close = ["admin", "priority", "lhcb_user", "0", "--because", "a pause"]
    assert CLOSED in wms(*close, code=1)
    for answer, ends in (("n", "Nothing was changed."), ("y", "lhcb_user has the share 0")):
        client = pexpect.spawn(sys.executable, ["-S", str(WMS), *close], env=environment, encoding="utf-8")
        client.expect_exact(f"{CLOSED} Confirm what is meant. Is this meant? [y/N] ")
        client.sendline(answer)
        client.expect_exact(ends)
        client.wait()
        assert Group.objects.get(name="lhcb_user").priority == (1000 if answer == "n" else 0)
    wms("admin", "limit", "--vo", "lhcb", "--waiting", "0", "--confirm")
    assert Limit.objects.filter(vo__name="lhcb", waiting=0).exists()


def test_limits_are_listed_added_changed_and_deleted(wms: Wms, own: RowsOfVO) -> None:
    assert wms("admin", "limit") == [f"{own.limit.pk}\tthe VO lhcb\t4 of 5 jobs"]
    added = wms("admin", "limit", "--group", "lhcb_user", "--cpu-per-day", "2h", "--job-type", "User")
    limit = Limit.objects.latest("pk")
    assert added == [f"Limit {limit.pk} on the group lhcb_user of the type User: 7200 of 7200 s of CPU time."]
    number = str(limit.pk)
    assert "running" not in wms("admin", "limit", number, "--running", "50", "--dry-run")[0]
    assert "49 of 50 jobs" in wms("admin", "limit", number, "--running", "50")[0]
    limit.refresh_from_db()
    assert (limit.running, limit.cpu_s_per_day) == (50, 7200)
    wms("admin", "limit", number, "--delay", "2.5", "--cpu-per-day", "none")
    wms("admin", "limit", number, "--burst", "3")
    limit.refresh_from_db()
    assert (limit.running, limit.cpu_s_per_day, limit.delay_s, limit.burst) == (50, None, 2.5, 3)
    wms("admin", "limit", number, "--delay", "none")
    limit.refresh_from_db()
    assert (limit.running, limit.delay_s, limit.burst) == (50, None, None)
    assert "Give running, waiting" in wms("admin", "limit", number, "--running", "none", code=1)
    assert wms("admin", "limit", number, "--delete", "--dry-run")[0].startswith("Nothing was changed.")
    deleted = f"Limit {number} on the group lhcb_user of the type User is deleted."
    assert wms("admin", "limit", number, "--delete") == [deleted]
    assert not Limit.objects.filter(pk=limit.pk).exists()
    assert "its jobs stay the same" in wms("admin", "limit", "5", "--vo", "lhcb", "--running", "1", code=2)
    assert json.loads(wms("admin", "limit", "99999", "--delete", "--json", code=1))["code"] == "not_found"


def test_a_throttle_is_shown_and_changed_in_what_is_named(wms: Wms, own: RowsOfVO) -> None:
    site = Site.objects.filter(pk=own.throttle.pk)
    throttle = ("admin", "throttle", "busy.lhcb.org")
    settings = ["site\tbusy.lhcb.org", "policy\tlevel0", "max_matches\t5", "max_submitting_jobs\t5"]
    shown = wms(*throttle)
    assert shown[:4] == settings
    assert {"status\topen", "room\tcounted at the next match", "matched\t0"} <= {*shown}
    change = (*throttle, "--policy", "level1", "--max-matches", "none", "--advertisement-s", "10m")
    has = "busy.lhcb.org has the throttle level1."
    assert wms(*change, "--dry-run")[0] == f"Nothing was changed. With the change: {has}"
    assert site.get().throttle_policy == "level0"
    assert wms(*change)[0] == has
    changed = site.get()
    assert (changed.throttle_policy, changed.max_matches, changed.max_jobs) == ("level1", None, 5)
    assert changed.throttle_advertisement_s == 600
    close = (*throttle, "--when-expired", "closed")
    assert "The throttle closes the site busy.lhcb.org at once." in wms(*close, code=1)
    assert {"status\tclosed"} < {*wms(*close, "--confirm")}
    assert wms(*throttle, "--none")[0] == "busy.lhcb.org has no throttle."
    assert json.loads("".join(wms(*throttle, "--json")))["now"] is None
    assert (site.get().throttle_policy, site.get().max_jobs) == ("", 5)
    assert "requirements: The policy custom requires" in wms(*throttle, "--policy", "custom", code=1)
    assert "not allowed with argument" in wms(*throttle, "--none", "--policy", "custom", code=2)


def test_a_vo_is_paused_and_goes_on(wms: Wms) -> None:
    paused = wms("admin", "pause", "lhcb", "--because", "storage is moved", "--for", "2h")
    assert paused[0].startswith("Matching for lhcb is paused until ")
    assert VO.objects.get(name="lhcb").pause_reason == "storage is moved"
    assert wms("admin", "pause", "lhcb")[0].split() == ["status", "paused"]
    goes_on = "Matching for lhcb goes on."
    assert wms("admin", "pause", "lhcb", "--end", "--dry-run") == [f"Nothing was changed. With the change: {goes_on}"]
    assert VO.objects.get(name="lhcb").paused_until is not None
    assert wms("admin", "pause", "lhcb", "--end") == [goes_on]
    assert VO.objects.get(name="lhcb").paused_until is None
    assert "has a reason and an end" in wms("admin", "pause", "lhcb", "--for", "2h", code=2)


def test_pilots_are_drained_and_killed(wms: Wms, own: RowsOfVO) -> None:
    drain = ("admin", "pilots", "drain", "--site", "lhcb.org", "--because", "kernel update")
    assert wms(*drain, "--dry-run") == ["Nothing was changed. 1 living pilots would be drained."]
    assert wms(*drain) == ["1 pilots drained."]
    assert wms("admin", "pilots", "kill", str(own.pilot.pk), "--because", "they loop") == ["1 pilots killed."]
    pilot = Pilot.objects.get(pk=own.pilot.pk)
    assert pilot.drained_at is not None
    assert pilot.revoked_at is not None


def test_pilots_are_listed_and_summed_up_by_the_same_filters(wms: Wms, own: RowsOfVO) -> None:
    (line,) = wms("admin", "pilots", "list", "--site", "lhcb.org")
    assert line.split("\t")[0] == str(own.pilot.pk)
    assert wms("admin", "pilots", "list", "--host", "elsewhere") == []
    for listing in (("pilots",), ("admin", "pilots", "list")):
        of_ce, total = wms(*listing, "--summary", "--site", "lhcb.org")
        assert of_ce.split("\t")[:3] == ["lhcb.org", "ce.lhcb.org", "1"]
        assert total.split("\t")[2] == "1"
        assert wms(*listing, "--summary", "--host", "elsewhere") == []
    assert "are of a list" in wms("admin", "pilots", "drain", "--site", "lhcb.org", "--summary", code=2)


def test_who_ran_on_a_host_is_found(wms: Wms, own: RowsOfVO) -> None:
    Pilot.objects.filter(pk=own.pilot.pk).update(host_name="node1")
    (lease,) = wms("admin", "leases", "--host", "node1", "--since", "2d")
    assert lease.split("\t")[:2] == [str(own.job.pk), "lhcb_member"]
    assert wms("admin", "leases", "--host", "node2") == []
    assert wms("admin", "leases", "--job", str(own.job.pk), "--until", "2020-01-01") == []
    assert "is no time" in wms("admin", "leases", "--since", "yesterday", code=2)


def test_the_history_says_who_changed_what(wms: Wms) -> None:
    wms("admin", "priority", "lhcb_user", "9000", "--because", "a campaign")
    wms("admin", "ban", "lhcb.org", "--because", "storage is moved")
    banned, changed = (line.split("\t")[1:] for line in wms("admin", "history", "--who", "mallory"))
    assert banned[:-1] == ["mallory", "site lhcb.org", "state active → banned; reason storage is moved"]
    assert changed[:2] == ["mallory", "group lhcb_user"]
    assert set(changed[2].split("; ")) == {"priority 1000 → 9000", "reason a campaign", "share 25 % → 75 %"}
    assert len(wms("admin", "history", "--target", "group lhcb_user")) == 1
    said = "Change {} of the site lhcb.org is reverted: state: banned → active."
    tried = wms("admin", "revert", banned[-1], "--dry-run")
    assert tried == [f"Nothing was changed. With the change: {said.format(banned[-1])}"]
    assert wms("admin", "revert", banned[-1]) == [said.format(banned[-1])]
    assert "has changed since" in wms("admin", "revert", banned[-1], code=1)


def test_a_computing_element_is_contacted_again_and_a_black_hole_lifted(wms: Wms, own: RowsOfVO) -> None:
    CEHealth.objects.update(ask_after=timezone.now(), send_after=None, stalls="Queue a.\nQueue b.")
    assert wms("admin", "ce") == ["lhcb.org\tce.lhcb.org\tactive\t3\t\t\t\tIt does not answer"]
    shown = wms("admin", "ce", "lhcb.org/ce.lhcb.org")
    assert {"trouble\tIt does not answer", "stalls\tQueue a. Queue b.", "failures\t3"} <= {*shown}
    ask = ("admin", "ce", "lhcb.org/ce.lhcb.org", "--ask-again")
    contacted = "ce.lhcb.org at lhcb.org is contacted again now."
    assert wms(*ask, "--dry-run") == [f"Nothing was changed. With the change: {contacted}"]
    assert CEHealth.objects.get().ask_after is not None
    assert wms(*ask) == [contacted]
    assert CEHealth.objects.get().ask_after is None
    assert "There is no computing element lhcb.org/none for you" in wms("admin", "ce", "lhcb.org/none", code=1)
    assert "SITE/CE for one computing element" in wms("admin", "ce", "lhcb.org", "--ask-again", code=2)

    assert wms("admin", "black-hole") == []
    node = make_black_hole(site=own.site, host_name="node2", found_at=timezone.now())
    for filters in ((), ("--site", "lhcb.org"), ("--host", "node2")):
        (listed,) = wms("admin", "black-hole", *filters)
        assert listed.startswith(f"{node.pk}\tnode2\tlhcb.org\t")
    assert wms("admin", "black-hole", "--host", "node3") == []
    lift = ("admin", "black-hole", str(node.pk), "--lift")
    assert wms(*lift, "--dry-run") == ["Nothing was changed. With the change: node2 at lhcb.org gets jobs again."]
    assert BlackHole.objects.get(pk=node.pk).lifted_at is None
    assert wms(*lift) == ["node2 at lhcb.org gets jobs again."]
    assert BlackHole.objects.get(pk=node.pk).lifted_by == "mallory"
    assert json.loads("".join(wms(*lift[:3], "--json")))["in_force"] is False
    assert "Name a black hole by its id" in wms("admin", "black-hole", "--lift", code=2)
    assert f"There is no black hole {10**9} for you" in wms("admin", "black-hole", str(10**9), code=1)


def test_a_token_without_the_scope_is_told_how_to_get_one(wms: Wms, live_server: LiveServer) -> None:
    wms("login", "--server", live_server.url, "--user", "mallory", typed="secret\n")
    refused = wms("admin", "pause", "lhcb", "--end", code=1)
    assert 'needs one with the scope "administer"' in refused
    assert "`wms login --scope administer`" in refused


def test_members_are_listed_added_invited_and_removed_and_people_suspended(wms: Wms, own: RowsOfVO) -> None:
    assert wms("admin", "member", "lhcb_prod") == []
    add = ("admin", "member", "lhcb_prod", "lhcb_member")
    added = "lhcb_member is a member of lhcb_prod."
    assert wms(*add, "--dry-run") == [f"Nothing was changed. With the change: {added}"]
    assert wms(*add) == [added]
    invited = wms("admin", "member", "lhcb_prod", "nora")
    assert invited == ["nora is invited to lhcb_prod, and becomes a member by accepting in the portal."]
    member, invitation = wms("admin", "member", "lhcb_prod")
    assert member.split("\t") == ["lhcb_member", "member", "manager", "", ""]
    assert invitation.split("\t")[:4] == ["nora", "invited", "", ""]
    listed = json.loads("".join(wms("admin", "member", "lhcb_prod", "--json")))
    assert ([each["username"] for each in listed["members"]], len(listed["invitations"])) == (["lhcb_member"], 1)
    for name in ("lhcb_member", "nora"):
        remove = ("admin", "member", "lhcb_prod", name, "--remove")
        removed = f"{name} is no longer a member of lhcb_prod, nor invited to it."
        assert wms(*remove, "--dry-run") == [f"Nothing was changed. With the change: {removed}"]
        assert wms(*remove) == [removed]
        nobody = f"{name} is neither a member of the group lhcb_prod nor invited to it."
        assert wms(*remove, code=1) == wms(*remove, "--dry-run", code=1) == f"wms: {nobody}"
    assert "Name the user" in wms("admin", "member", "lhcb_prod", "--remove", code=2)

    suspend = ("admin", "suspend", "lhcb_member", "--because", "stolen account")
    suspended = "lhcb_member is suspended. Payloads killed: 1; jobs that wait, and are not matched: 1."
    assert wms(*suspend, "--dry-run") == [f"Nothing was changed. With the change: {suspended}"]
    assert User.objects.get(pk=own.member.pk).is_active
    assert wms(*suspend) == [suspended]
    restore = ("admin", "restore", "lhcb_member")
    restored = "lhcb_member may log in again; jobs that can be matched again: 1."
    assert wms(*restore, "--dry-run") == [f"Nothing was changed. With the change: {restored}"]
    assert not User.objects.get(pk=own.member.pk).is_active
    assert wms(*restore) == [restored]
    assert User.objects.get(pk=own.member.pk).is_active

    ApiToken.objects.update(created_at=timezone.now() - timedelta(minutes=16))
    for command in (add, suspend, restore):
        assert "log in again (`wms login --scope administer`)" in wms(*command, code=1)
