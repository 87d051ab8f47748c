"""Applying the configuration file: rows that it stores, rows that it leaves alone, and its output."""

# ruff: noqa: E501 - rows of tables

import json
from typing import Any

import pytest
import yaml
from allauth.socialaccount.models import SocialAccount

from matching.services.throttles import advertise
from pilots.models import Director
from resources.domain.advertisements import of_classad
from resources.domain.enums import ResourceState, SiteTokenPurpose
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    RequirementDefinition,
    Site,
    SiteToken,
    StorageElement,
)
from resources.services.site_tokens import issue_site_token
from taskqueues.models import ChangedGroup, Limit, SubmitPool
from taskqueues.services import submit_pools
from tests.database.configuration.configuring import ENVIRON, EXAMPLE, apply, counts, problems_of
from tests.factories import NOW, make_ce, make_group, make_job, make_queue, make_site, make_user, make_vo
from wms.accounts.domain import digest_of
from wms.accounts.models import VO, Group, Membership, User
from wms.configuration.export import export
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.secrets import decrypt

pytestmark = pytest.mark.django_db

# ---- The whole example -----------------------------------------------------------------------------------------------


def test_the_whole_example_is_stored() -> None:
    apply(EXAMPLE)

    vo = VO.objects.get(name="lhcb")
    assert (vo.setup, vo.setups) == ("LHCb-Production", ["LHCb-Devel", "LHCb-Production"])
    assert [user.username for user in vo.managers.all()] == ["bob"]
    assert (vo.history_fair_share, vo.any_segment_fraction) == (True, 0.1)
    assert (vo.stalled_s, vo.stalled_cpu_fraction, vo.max_stalled_s) == (1800, 0.05, 86400)
    production = Group.objects.get(name="lhcb_prod")
    assert (production.vo, production.priority, production.shares_jobs) == (vo, 3000.0, True)
    alice, bob = User.objects.get(username="alice"), User.objects.get(username="bob")
    assert alice.check_password("alice-knows")
    assert [dn.dn for dn in alice.dns.all()] == ["/DC=ch/DC=example/CN=alice"]
    assert alice.default_group == Group.objects.get(name="lhcb_user")
    assert (bob.is_staff, bob.is_superuser, bob.is_active, bob.has_usable_password()) == (True, False, True, False)
    assert {membership.group.name for membership in bob.memberships.all()} == {"lhcb_user", "lhcb_prod"}
    memory, software = RequirementDefinition.objects.order_by("name")
    assert (memory.kind, memory.unit, software.kind, list(software.vos.all())) == ("capacity", "MB", "set", [vo])
    assert Platform.objects.get().runs == ["x86_64-el8", "x86_64-el9"]
    element = StorageElement.objects.get()
    assert decrypt(element.credential_encrypted) == "key of the store"
    site = Site.objects.get()
    assert (list(site.vos.all()), site.state) == ([vo], ResourceState.ACTIVE)
    assert (site.parameters, site.vo_parameters) == ({"SoftwareTag": "AppVersion1"}, {"lhcb": {"Memory": 4000}})
    assert (site.throttle_policy, site.max_submitting_jobs, site.max_jobs) == ("level0", 5, None)
    assert not site.containers_provide_platforms
    assert list(site.storage_elements.all()) == [element]
    assert {(token.purpose, bytes(token.digest)) for token in site.tokens.all()} == {
        ("register", digest_of("register-me")),
        ("advertise", digest_of("advertise-me")),
    }
    queue = Queue.objects.get()
    assert (queue.ce.site, queue.ce.type, queue.ce.pilot_types) == (site, "local", ["generic", "private"])
    assert (queue.name, queue.cpu_time_s, queue.platforms, queue.memory_mb) == ("grid", 300000, ["x86_64-el9"], 4000)
    assert (queue.wall_time_s, queue.gpus, queue.disk_mb, queue.container) == (345_600, 0, 20_000, True)
    assert (queue.stalled_s, queue.stalled_cpu_fraction, queue.max_stalled_s) == (3600, None, 43_200)
    director = Director.objects.get()
    assert (director.kind, list(director.sites.all()), director.job_types) == ("site", [site], ["MCSimulation"])
    assert set(Limit.objects.values_list("site", "user", "job_type", "running", "waiting", "delay_s", "burst")) == {
        (site.pk, None, "MCSimulation", 100, None, None, None),
        (site.pk, None, "", None, None, 0.5, 3),
        (None, alice.pk, "", None, 100000, None, None),
    }


def test_the_example_causes_no_warning() -> None:
    assert not apply(EXAMPLE).warnings


@pytest.mark.parametrize(
    ("ce", "sentence"),
    [
        (
            "type: slurm, options: {partiton: main}",
            'Did you mean "partition"? No pilots are sent there until this is corrected.',
        ),
        (
            "type: local, identity: sudo",
            "Unix accounts of the nodes that the pilot may become. No pilots are sent there until this is corrected.",
        ),
    ],
)
def test_options_that_a_backend_would_refuse_are_stored_with_a_warning(ce: str, sentence: str) -> None:
    (warning,) = apply(f"sites: [{{name: A, ces: [{{name: c, {ce}}}]}}]").warnings
    assert str(warning).endswith(sentence)
    assert warning.path == "sites[0].ces[0].options"


def test_a_name_that_neither_jobs_nor_the_site_have_is_refused_until_confirmed() -> None:
    def text(requirements: str) -> str:
        return f"sites: [{{name: A, throttle: {{policy: custom, requirements: '{requirements}'}}}}]"

    def warnings(requirements: str) -> list[str]:
        result = apply(text(requirements), confirmed=True)
        return [str(warning) for warning in result.warnings if "The expression" in warning.sentence]

    expression = "CPUTme < 3600 && TARGET.Ownr != MY.Me && CurMatches < Shelf && MaxJobs =?= undefined"
    problems = problems_of(text(expression))
    assert not Site.objects.exists()
    cpu_time, shelf, owner = warnings(expression)
    assert cpu_time == (
        "line 1: sites[0]: The expression of the throttle: neither jobs nor the site's last advertisement have CPUTme, "
        'so it is undefined until the site advertises it. Did you mean "CPUTime"? An expression that is not TRUE '
        "closes the site."
    )
    assert problems == [
        f"{each} If that is meant, repeat the command with --confirm." for each in (cpu_time, shelf, owner)
    ]
    assert "have Shelf, so it is undefined until the site advertises it. An" in shelf
    assert ("have TARGET.Ownr, so" in owner, 'Did you mean "Owner"?' in owner) == (True, True)
    assert warnings(expression) == []  # stored already
    assert warnings("CPUTime < 3600 && CurMatches < 10") == []
    advertise(Site.objects.get().pk, of_classad("CurMatches = 1; Shelf = 20"))
    assert warnings(expression) == [cpu_time, owner]


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("cpu_time_s: 300000, wall_time_s: 86400", ["offer 86400 s", "segment 300000, such as", "(86400 s)"]),
        ("cpu_time_s: 500000, wall_time_s: 290000", ["offer 290000 s", "raise wall_time_s to 300000"]),
        ("cpu_time_s: 50000, wall_time_s: 3600", ["segment 50000 get", "lower cpu_time_s to 3600"]),
        # Within the error of the benchmark.
        ("cpu_time_s: 300000, wall_time_s: 270000", []),
        ("cpu_time_s: 300000, wall_time_s: 345600", []),
        ("cpu_time_s: 300000", []),
        ("cpu_time_s: 86400, wall_time_s: 60000", []),
        ("cpu_time_s: 100, wall_time_s: 1", []),
    ],
)
def test_a_queue_that_ends_before_its_cpu_time_can_be_used_gets_a_warning(queue: str, words: list[str]) -> None:
    text = f"sites: [{{name: A, ces: [{{name: c, type: local, queues: [{{name: q, {queue}}}]}}]}}]"
    warnings = apply(text).warnings
    assert [warning.path for warning in warnings] == ["sites[0].ces[0].queues[0].wall_time_s"] * bool(words)
    assert all(word in str(warnings[0]) for word in words)


@pytest.mark.parametrize(
    ("stored", "entry", "sentences"),
    [
        ({"type": "slurm", "options": {"partition": "grid"}}, "options: {partition: long}", []),
        ({"type": "slurm", "options": {"partition": "grid"}}, "pilot_types: [generic]", []),
        ({"type": "ssh", "options": {"host": "h", "payload_users": ["wms01"]}}, "identity: sudo", []),
        ({"type": "slurm", "options": {"partition": "grid"}}, "type: local", ["no option partition"]),
        ({"type": "slurm", "options": {}}, "options: {max_processes: 2}", ["no option max_processes"]),
        ({"type": "local", "options": {}}, "identity: sudo", ["payload_users"]),
    ],
)
def test_options_are_checked_with_what_is_stored_and_the_entry_leaves_out(
    stored: dict[str, Any], entry: str, sentences: list[str]
) -> None:
    make_ce(name="ce01", site=make_site(name="LCG.CERN.ch"), **stored)
    warnings = apply(f"sites: [{{name: LCG.CERN.ch, ces: [{{name: ce01, {entry}}}]}}]").warnings
    assert len(warnings) == len(sentences), warnings
    assert all(sentence in str(warning) for sentence, warning in zip(sentences, warnings, strict=True)), warnings


def test_lists_among_options_stay_lists_in_their_order() -> None:
    options = {"submit_arguments": ["--qos=low", "--exclusive"], "payload_users": ["wms01"], "features": {"a": ["b"]}}
    file = f"sites: [{{name: A, ces: [{{name: c, type: slurm, options: {json.dumps(options)}}}]}}]"
    apply(file)
    assert not apply(file).differences
    assert json.dumps(options["submit_arguments"]) in json.dumps(yaml.safe_load(export()))
    # What the file leaves out is written again when something beside it changes.
    apply("sites: [{name: A, ces: [{name: c, pilot_types: [generic]}]}]")
    assert ComputingElement.objects.get().options == options


def test_applying_a_file_again_changes_nothing() -> None:
    assert len(apply(EXAMPLE).differences) == 16
    before = counts()
    passwords = list(User.objects.order_by("pk").values_list("password", flat=True))

    assert apply(EXAMPLE).differences == ()
    assert counts() == before
    assert list(User.objects.order_by("pk").values_list("password", flat=True)) == passwords


def test_unset_slot_values_of_a_queue_are_zero_except_wall_time() -> None:
    slot = "sites: [{name: A, ces: [{name: c, type: local, queues: [{name: q, cpu_time_s: 1%s}]}]}]"
    apply(slot % "")
    queue = Queue.objects.get()
    assert (queue.wall_time_s, queue.gpus, queue.disk_mb, queue.container) == (None, 0, 0, False)
    apply(slot % ", wall_time_s: 60, gpus: 4, disk_mb: 9, container: true")
    queue.refresh_from_db()
    assert (queue.wall_time_s, queue.gpus, queue.disk_mb, queue.container) == (60, 4, 9, True)
    assert "wall_time_s: 60, gpus: 4, disk_mb: 9, container: true" in export()
    apply(slot % ", wall_time_s: null")
    queue.refresh_from_db()
    assert (queue.wall_time_s, queue.gpus) == (None, 4)


# ---- What changes, and what stays ------------------------------------------------------------------------------------


def test_differences_name_object_key_and_both_values() -> None:
    apply(EXAMPLE)
    changed = EXAMPLE.replace("priority: 1000, properties: []", "priority: 2000.5, properties: [JOB_SHARING]")
    changed = changed.replace("max_pilots: 100", "max_pilots: 7").replace("running: 100}", "running: 99}")
    changed = changed.replace("state: active", "state: banned").replace('reason: ""', "reason: power cut")
    assert apply(changed, environ=ENVIRON | {"ALICE_PASSWORD": "b"}).differences == (
        "~ group lhcb_user: priority 1000 → 2000.5, properties [] → [JOB_SHARING]",
        "~ user alice: password changed",
        "~ site LCG.CERN.ch: status {state: active, reason: '', until: null} → {state: banned, reason: power cut, until: null}",
        "~ queue LCG.CERN.ch/ce01.cern.ch/grid: max_pilots 100 → 7",
        "+ limit scope {site: LCG.CERN.ch, job_type: MCSimulation} running 99",
        "- limit scope {site: LCG.CERN.ch, job_type: MCSimulation} running 100",
    )
    assert User.objects.get(username="alice").check_password("b")
    assert Site.objects.get().state == ResourceState.BANNED
    assert Site.objects.get().state_changed_at == NOW


def test_a_key_that_is_left_out_stays_as_it_is() -> None:
    apply(EXAMPLE)
    before = export()
    assert apply("sites: [{name: LCG.CERN.ch, ces: [{name: ce01.cern.ch}]}]").differences == ()
    assert apply("users: [{username: alice}]\nvos: [{name: lhcb, setup: LHCb-Production}]").differences == ()
    assert export() == before


def test_a_ban_is_kept_if_the_file_does_not_name_the_state() -> None:
    apply("sites: [{name: A}]")
    Site.objects.update(state=ResourceState.BANNED, state_reason="fire")
    apply("sites: [{name: A, parameters: {x: 1}}]")
    assert Site.objects.get().state == ResourceState.BANNED


def test_objects_missing_in_the_file_are_not_deleted() -> None:
    apply(EXAMPLE)
    before = counts()
    apply("groups: [{name: other, vo: lhcb}]")
    assert counts() == [before[0], before[1] + 1, *before[2:]]


def test_a_list_in_the_file_replaces_the_stored_list() -> None:
    apply(EXAMPLE)
    apply(
        "vos: [{name: lhcb, setup: LHCb-Production, managers: [alice]}]\n"
        "users: [{username: alice, dns: [/CN=new], groups: [lhcb_prod], default_group: null}]\n"
        "platforms: {x86_64-el9: []}\nsites: [{name: LCG.CERN.ch, vos: []}]\nlimits: []\n"
    )
    alice = User.objects.get(username="alice")
    assert [user.username for user in VO.objects.get().managers.all()] == ["alice"]
    assert [dn.dn for dn in alice.dns.all()] == ["/CN=new"]
    assert [membership.group.name for membership in alice.memberships.all()] == ["lhcb_prod"]
    assert alice.default_group is None
    assert Platform.objects.get().runs == ["x86_64-el9"]
    assert not Site.objects.get().vos.exists()
    assert not Limit.objects.exists()


def test_memberships_by_claim_are_kept_until_a_file_names_them() -> None:
    groups = [make_group(name=name, vo=make_vo(name=f"vo_{name}")) for name in ("claimed", "given")]
    alice = make_user(username="alice", groups=groups, default_group=groups[0])
    account = SocialAccount.objects.create(user=alice, provider="https://auth.example.org", uid="alice")
    claimed = Membership.objects.filter(user=alice, group=groups[0])
    claimed.update(by_claim_of=account, confirmed_at=NOW)
    exported = export()
    assert yaml.safe_load(exported)["users"][0]["groups"] == ["given"]
    assert apply(exported).differences == ()
    apply("users: [{username: alice, groups: [], default_group: null}]")
    assert [membership.group.name for membership in alice.memberships.all()] == ["claimed"]
    apply("users: [{username: alice, groups: [claimed]}]")
    assert claimed.get().confirmed_at is None


def test_a_dn_may_move_from_one_user_to_another() -> None:
    make_user(username="alice", dns=["/CN=a"])
    make_user(username="bob", dns=["/CN=b"])
    apply('users: [{username: alice, dns: ["/CN=b"]}, {username: bob, dns: ["/CN=a"]}]')
    assert [dn.dn for dn in User.objects.get(username="alice").dns.all()] == ["/CN=b"]


def test_a_user_without_a_password_cannot_log_in() -> None:
    apply("users: [{username: carol, suspended: true}]")
    carol = User.objects.get(username="carol")
    assert (carol.has_usable_password(), carol.is_active) == (False, False)


def test_a_suspension_by_a_file_ends_the_payloads_and_says_their_number() -> None:
    alice = make_user(username="alice")
    running, waiting = make_job(owner=alice, status=JobStatus.RUNNING), make_job(owner=alice)
    text = "users: [{username: alice, suspended: true}]"
    for dry_run in (True, False):
        (warning,) = apply(text, dry_run=dry_run).warnings
        assert warning.sentence == "alice: suspended; payloads killed: 1; jobs that wait, and are not matched: 1."
        running.refresh_from_db()
        assert running.status == (JobStatus.RUNNING if dry_run else JobStatus.KILLED)
    waiting.refresh_from_db()
    assert waiting.status == JobStatus.WAITING


def test_a_user_keeps_the_password_that_the_file_does_not_name() -> None:
    make_user(username="alice", password="own")
    apply("users: [{username: alice, staff: true}]")
    assert User.objects.get(username="alice").check_password("own")


def test_a_token_of_the_file_replaces_its_predecessor_and_no_other() -> None:
    apply("sites: [{name: A, tokens: {register: first}}]")
    issued = issue_site_token(Site.objects.get(), purpose=SiteTokenPurpose.REGISTER, now=NOW)
    assert apply("sites: [{name: A, tokens: {register: second}}]").differences == ("~ site A: tokens changed",)
    digests = {bytes(token.digest) for token in SiteToken.objects.all()}
    assert digests == {digest_of("second"), digest_of(issued)}


def test_the_setup_of_a_token_of_the_file_changes_with_the_file() -> None:
    make_vo(setup="Production", setups=["Devel"])
    for setup, differences in (("Devel", ("+ site A",)), ("Devel", ()), ("", ("~ site A: tokens changed",))):
        text = f"sites: [{{name: A, tokens: {{register: first, advertise: other, setup: '{setup}'}}}}]"
        assert apply(text).differences == differences
        assert {token.purpose: token.setup for token in SiteToken.objects.all()} == {"register": setup, "advertise": ""}


def test_a_changed_priority_marks_the_group_for_re_evaluation() -> None:
    group = make_group(name="g", vo=make_vo(name="v"), priority=1.0)
    apply("groups: [{name: g, vo: v, priority: 1.0}]")
    assert not ChangedGroup.objects.exists()
    apply("groups: [{name: g, vo: v, priority: 2.0}]")
    assert [mark.group for mark in ChangedGroup.objects.all()] == [group]


def test_a_changed_correction_by_history_marks_all_groups_of_the_vo() -> None:
    vo = make_vo(name="v", setup="s")
    groups = [make_group(vo=vo), make_group(vo=vo)]
    make_group()
    apply("vos: [{name: v, setup: s, any_segment_fraction: 0.5}]")
    assert not ChangedGroup.objects.exists()
    apply("vos: [{name: v, setup: s, history_fair_share: true}]")
    assert {mark.group for mark in ChangedGroup.objects.all()} == set(groups)
    vo.refresh_from_db()
    assert (vo.history_fair_share, vo.any_segment_fraction) == (True, 0.5)


@pytest.mark.parametrize("fraction", ["-0.1", "1.1", ".nan", ".inf", '"half"', "true"])
def test_a_fraction_of_matches_is_from_0_to_1(fraction: str) -> None:
    (problem,) = problems_of(f"vos: [{{name: v, setup: s, any_segment_fraction: {fraction}}}]")
    assert "any_segment_fraction" in problem


def test_changed_parameters_change_who_is_in_which_submit_pool() -> None:
    site, vo = make_site(name="A"), make_vo(name="v")
    queue = make_queue(ce=make_ce(site=site))
    submit_pools.register(vo=vo, requirements={"Memory": 4000}, now=NOW)
    pool = SubmitPool.objects.get()
    assert not pool.queues.exists()
    apply("sites: [{name: A, parameters: {memory: 8000}}]")
    assert list(pool.queues.all()) == [queue]


def test_a_limit_of_a_ce_finds_its_site() -> None:
    make_ce(name="ce1", site=make_site(name="A"))
    apply("limits: [{scope: {ce: ce1}, running: 1}]")
    assert apply("limits: [{scope: {ce: ce1, site: A}, running: 1}]").differences == ()
    assert apply(export()).differences == ()


def test_references_may_be_to_what_the_database_holds() -> None:
    make_vo(name="old")
    apply("groups: [{name: g, vo: old}]")
    assert Group.objects.get(name="g").vo.name == "old"


def test_an_unknown_manager_is_left_out_with_a_warning_until_there_is_one() -> None:
    text = "vos: [{name: v, setup: s, managers: [bob]}]"
    (warning,) = apply(text + "\nusers: [{username: bobby}]").warnings
    assert str(warning) == (
        'line 1: vos[0].managers[0]: there is no user "bob", neither in the file nor in the database; '
        'it is left out until it exists. Did you mean "bobby"?'
    )
    bob = make_user(username="bob")
    assert apply(text).differences == ("~ vo v: managers [] → [bob]",)
    assert list(VO.objects.get().managers.all()) == [bob]


# ---- Refusals that need the database ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("groups:\n- {name: g, vo: lchb}", 'line 2: groups[0].vo: there is no vo "lchb", neither in the file nor in the database. Did you mean "lhcb"?'),
        ("users:\n- username: u\n  groups: [x]", 'line 3: users[0].groups[0]: there is no group "x", neither in the file nor in the database.'),
        ("groups: [{name: staff, vo: atlas}]", "line 1: groups[0].vo: a group cannot leave its VO, which is lhcb; create another group in atlas"),
        ('users: [{username: u, dns: ["/CN=alice"]}]', 'line 1: users[0].dns: "/CN=alice" is a DN of alice; a DN belongs to one user only'),
        ("users: [{username: u, groups: [staff], default_group: other}]", 'line 1: users[0].default_group: "other" must be one of the user\'s groups'),
        ("vos: [{name: lhcb, setup: New}]", 'line 1: vos[0].setup: "New" must be one of setups (Production)'),
        ("sites: [{name: A, ces: [{name: c, type: local, queues: [{name: q, cpu_time_s: 1, required_tags: [x]}]}]}]", "line 1: sites[0].ces[0].queues[0].required_tags: must be among the queue's tags, where x is missing"),
        ("limits: [{scope: {ce: twice}, running: 1}]", "line 1: limits[0].scope.ce: name its site too: A, B have one of that name"),
        ("limits: [{scope: {ce: twice, site: C}, running: 1}]", 'line 1: limits[0].scope.ce: the site C has no ce "twice"'),
        ("sites: [{name: A, vos: [lhcb], ces: [{name: twice, setup: Atlas}]}]", 'line 1: sites[0].ces[0].setup: lhcb has no setup "Atlas"'),
        ("sites: [{name: A, ces: [{name: twice, queues: [{name: q, cpu_time_s: 1, setup: Product}]}]}]", 'line 1: sites[0].ces[0].queues[0].setup: None of the VOs atlas, lhcb has a setup "Product". Did you mean "Production"?'),
        ("sites: [{name: A, tokens: {register: x, setup: Atlas}, vos: [lhcb]}]", 'line 1: sites[0].tokens.setup: lhcb has no setup "Atlas"'),
        ("sites: [{name: A, tokens: {advertise: x, setup: Production}}]", "line 1: sites[0].tokens.setup: requires register, the token by which pilots register"),
        ("directors: [{name: d, setup: Other}]", 'line 1: directors[0].setup: None of the VOs atlas, lhcb has a setup "Other"'),
        ('directors: [{name: d, requirements: "GPUs >"}]', "line 1: directors[0].requirements: not a ClassAd expression: Line 1, column 7: A value is expected here, not the end of the text."),
        ('directors: [{name: d, requirements: "CPUTme < 9"}]', 'line 1: directors[0].requirements: a task queue has no attribute "CPUTme". Did you mean "CPUTime"?'),
        ("sites: [{name: A, tokens: {register: used}}]", "line 1: sites[0].tokens.register: this token is in use elsewhere, or was revoked; choose another one"),
        ("sites: [{name: A, tokens: {register: x, advertise: x}}]", "line 1: sites[0].tokens.register: this token is in use elsewhere, or was revoked; choose another one"),
        ("sites: [{name: A, vo_parameters: {cms: {x: 1}}}]", 'line 1: sites[0].vo_parameters.cms: there is no vo "cms", neither in the file nor in the database.'),
    ],
)  # fmt: skip
def test_values_that_the_database_cannot_store_are_refused(text: str, problem: str) -> None:
    lhcb = make_vo(name="lhcb")
    make_vo(name="atlas", setup="Atlas")
    make_user(username="alice", dns=["/CN=alice"])
    make_group(name="staff", vo=lhcb)
    make_group(name="other", vo=lhcb)
    for name in ("A", "B"):
        make_ce(name="twice", site=make_site(name=name))
    site = make_site(name="C")
    SiteToken.objects.create(site=site, purpose=SiteTokenPurpose.REGISTER, digest=digest_of("used"))
    before = counts()

    assert problems_of(text) == [problem]
    assert counts() == before


def test_all_problems_are_reported_and_nothing_is_written() -> None:
    text = """\
vos: [{name: lhcb, setup: P}]
groups:
  - {name: g, vo: atlas, priority: -1}
  - {name: g h, vo: lhcb}
  - {nam: x, vo: lhcb}
sites:
  - name: A
    ces: [{name: c, type: local, queues: [{name: q, cpu_time_s: 0}, {name: r, cpu_time_s: 1, required_tags: [x]}]}]
"""
    assert [problem.partition(": ")[::2] for problem in map(str, problems_of(text))] == [
        ("line 3", "groups[0].priority: must be from 0 to 1e+12"),
        ("line 3", 'groups[0].vo: there is no vo "atlas", neither in the file nor in the database.'),
        ("line 4", 'groups[1].name: "g h" is not accepted: use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _'),
        ("line 5", "groups[2]: name is missing"),
        ("line 5", 'groups[2].nam: unknown key. Did you mean "name"?'),
        ("line 8", "sites[0].ces[0].queues[0].cpu_time_s: must be from 1 to 2147483647"),
        ("line 8", "sites[0].ces[0].queues[1].required_tags: must be among the queue's tags, where x is missing"),
    ]  # fmt: skip
    assert counts() == [0] * 12


@pytest.mark.django_db
def test_that_containers_provide_platforms_is_applied_and_exported() -> None:
    text = "sites: [{name: LCG.CERN.ch, containers_provide_platforms: true}]"
    apply(text)
    assert Site.objects.get().containers_provide_platforms
    assert not apply(text).differences
    assert "containers_provide_platforms: true" in export()
    apply("sites: [{name: LCG.CERN.ch, containers_provide_platforms: false}]")
    assert not Site.objects.get().containers_provide_platforms
