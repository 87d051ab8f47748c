"""Resources and requirements in a configuration file, and the queues in the submit pools of each VO (RFC7).

Every change of the file updates the submit pools at once; no test here waits for a refresh.
"""

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from resources.models import RequirementDefinition, Site
from taskqueues.models import SubmitPool
from taskqueues.services import submit_pools
from tests.cases import quick_cases
from tests.factories import NOW, make_token
from wms.accounts.models import VO, User
from wms.configuration.configure import configure
from wms.configuration.problems import ConfigurationError

pytestmark = pytest.mark.django_db

BASE = """
vos: [{name: lhcb, setup: P}, {name: atlas, setup: P}]
groups: [{name: lhcb_user, vo: lhcb}, {name: atlas_user, vo: atlas}]
users: [{username: alice, groups: [lhcb_user]}, {username: bob, groups: [atlas_user]}]
"""


def apply(text: str) -> None:
    configure(text.encode(), environ={}, now=NOW)


def client(username: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(User.objects.get(username=username))}")
    return client


def queues(vo: str, **required: object) -> set[str]:
    """Return the queues of the VO's pool of these requirements, registering the pool if necessary."""
    with transaction.atomic():
        owner = VO.objects.get(name=vo)
        pool = submit_pools.register(vo=owner, requirements=required, now=NOW)
    return set(SubmitPool.objects.get(pk=pool.id).queues.values_list("name", flat=True))


# ---- Which value is in force -----------------------------------------------------------------------------------------

NOTHING = "{}"


@pytest.mark.parametrize(
    ("site", "ce", "queue", "lhcb", "atlas"),
    quick_cases(
        [
            # Each level: for all VOs, for lhcb.
            (("{P: a}", NOTHING), (NOTHING, NOTHING), (NOTHING, NOTHING), "a", "a"),
            ((NOTHING, "{P: a}"), (NOTHING, NOTHING), (NOTHING, NOTHING), "a", ""),
            (("{P: a}", "{P: b}"), (NOTHING, NOTHING), (NOTHING, NOTHING), "b", "a"),
            # The level first, then the VO.
            (("{P: a}", "{P: b}"), ("{P: c}", NOTHING), (NOTHING, NOTHING), "c", "c"),
            (("{P: a}", "{P: b}"), (NOTHING, "{P: c}"), (NOTHING, NOTHING), "c", "a"),
            (("{P: a}", "{P: b}"), ("{P: c}", "{P: d}"), ("{P: e}", NOTHING), "e", "e"),
            (("{P: a}", "{P: b}"), ("{P: c}", "{P: d}"), (NOTHING, "{P: e}"), "e", "c"),
            (("{P: a}", NOTHING), (NOTHING, "{P: d}"), ("{P: e}", "{P: f}"), "f", "e"),
            # A list replaces, at the same level and at the next.
            (("{P: [a, b]}", "{P: [b, c]}"), (NOTHING, NOTHING), (NOTHING, NOTHING), "bc", "ab"),
            (("{P: [a, b]}", NOTHING), ("{P: [c]}", NOTHING), (NOTHING, NOTHING), "c", "c"),
            (("{P: a}", NOTHING), ("{P: [b, c]}", NOTHING), (NOTHING, "{P: [d, a]}"), "ad", "bc"),
            (("{P: [a, b]}", NOTHING), (NOTHING, NOTHING), (NOTHING, "{P: c}"), "c", "ab"),
            # Names are the same in any case.
            (("{p: a}", "{ P : b}"), (NOTHING, NOTHING), ("{P: c}", "{p: d}"), "d", "c"),
            # Other names do not take each other's place.
            (("{P: a}", "{Q: b}"), ("{Q: c}", NOTHING), ("{R: d}", "{R: e}"), "a", "a"),
        ],
        quick=6,
    ),
)
def test_the_level_decides_then_the_vo_and_lists_replace(
    site: tuple[str, str], ce: tuple[str, str], queue: tuple[str, str], lhcb: str, atlas: str
) -> None:
    def said(level: tuple[str, str]) -> str:
        return f"parameters: {level[0]}, vo_parameters: {{lhcb: {level[1]}}}"

    apply(
        f"{BASE}sites: [{{name: A, {said(site)}, "
        f"ces: [{{name: ce, type: local, {said(ce)}, queues: [{{name: q, cpu_time_s: 1, {said(queue)}}}]}}]}}]"
    )
    for vo, in_force in (("lhcb", lhcb), ("atlas", atlas)):
        assert {value for value in "abcdef" if queues(vo, P=value)} == set(in_force)


# ---- How it is compared ----------------------------------------------------------------------------------------------

#: Queues named after what they say.
OFFERING_NUMBERS = """
sites:
  - name: A
    ces:
      - name: ce
        type: local
        queues:
          - {name: "8", cpu_time_s: 1, parameters: {P: 8}}
          - {name: "9", cpu_time_s: 1, parameters: {P: 9}}
          - {name: "89", cpu_time_s: 1, parameters: {P: [8, 9]}}
          - {name: none, cpu_time_s: 1}
"""
OFFERING = f"""{OFFERING_NUMBERS.rstrip()}
          - {{name: a, cpu_time_s: 1, parameters: {{P: a}}}}
          - {{name: ab, cpu_time_s: 1, parameters: {{P: [a, b]}}}}
          - {{name: text8, cpu_time_s: 1, parameters: {{P: "8"}}}}
          - {{name: truth, cpu_time_s: 1, parameters: {{P: true}}}}
"""


@pytest.mark.parametrize(
    ("kind", "asked", "fitting"),
    quick_cases(
        [
            ("capacity", 8, "8 9 89"),
            ("capacity", 8.5, "9"),
            ("capacity", [9, 20], "9"),
            ("set", 8, "8 89"),
            ("set", [8.0, 9], "8 9 89"),
            ("set", [8], "8 89"),
            ("set", "a", "a ab"),
            ("set", ["a", 8], "8 89 a ab"),
            ("set", "8", "text8"),
            ("set", True, "truth"),
            ("exact", 8, "8"),
            ("exact", [8, 9], "8 9 89"),
            ("exact", "a", "a"),
            ("exact", ["b", "a"], "a ab"),
            ("exact", ["a", 8], "8 a"),
            ("exact", "8", "text8"),
            ("exact", True, "truth"),
            # Without a definition the value says it.
            (None, 8, "8 9 89"),
            (None, [8], "8 9 89"),
            (None, [8, 20], "8 89"),
            (None, "a", "a ab"),
            (None, "8", "text8"),
            (None, True, "truth"),
        ],
        quick=9,
    ),
)
def test_the_definition_decides_how_values_are_compared(kind: str | None, asked: object, fitting: str) -> None:
    apply(BASE + OFFERING)
    if kind:
        # Not by the file, which refuses a capacity beside the texts: databases from before have both (ADR 31).
        RequirementDefinition.objects.create(name="p", kind=kind)
    assert queues("lhcb", P=asked) == set(fitting.split())


def test_a_new_or_changed_definition_updates_pools_and_keeps_their_ids() -> None:
    apply(BASE + OFFERING_NUMBERS)
    answer = client("alice").post("/api/v1/jobs/", {"executable": "a", "requirements": {"P": 8}}, format="json")
    assert answer.status_code == 201
    pool = SubmitPool.objects.get()

    def now_in_it() -> set[str]:
        return set(pool.queues.values_list("name", flat=True))

    assert now_in_it() == {"8", "9", "89"}
    for definition, fitting in (
        ("{name: P, kind: set}", "8 89"),
        ("{name: p, kind: exact, unit: pieces}", "8"),
        # Only for others: the value says it again.
        ("{name: P, kind: exact, vos: [atlas]}", "8 9 89"),
        ("{name: P, kind: exact, vos: [atlas, lhcb]}", "8"),
        ("{name: P, kind: capacity, vos: []}", "8 9 89"),
    ):
        apply(f"requirement_definitions: [{definition}]")
        assert now_in_it() == set(fitting.split()), definition
        again = client("alice").post("/api/v1/jobs/", {"executable": "a", "requirements": {"p": 8.0}}, format="json")
        assert again.json()["jobs"][0]["task_queue"] == answer.json()["jobs"][0]["task_queue"]
    assert SubmitPool.objects.get() == pool


@pytest.mark.parametrize(
    ("definition", "resource", "asked", "alice", "bob"),
    [
        ("", "parameters: {Disk: 5}", 5, 201, 201),
        ("", "vo_parameters: {lhcb: {Disk: 5}}", 5, 201, 400),
        ("", "vos: [atlas], parameters: {Disk: 5}", 5, 400, 201),
        ("", "", 5, 400, 400),
        ("{name: Disk, kind: set}", "", 5, 201, 201),
        ("{name: Disk, kind: set, vos: [atlas]}", "", 5, 400, 201),
        ("{name: Disk, kind: capacity, vos: [atlas]}", "parameters: {Disk: 5}", "much", 201, 400),
    ],
)
def test_a_requirement_name_needs_a_definition_or_a_resource_of_the_vo(
    definition: str, resource: str, asked: object, alice: int, bob: int
) -> None:
    apply(f"{BASE}requirement_definitions: [{definition}]\nsites: [{{name: A, {resource}}}]")
    for username, status in (("alice", alice), ("bob", bob)):
        body = {"executable": "a", "requirements": {"DISK": asked}}
        answer = client(username).post("/api/v1/jobs/", body, format="json")
        assert answer.status_code == status
        if status == 400:
            assert list(answer.json()["errors"]) == ["requirements.DISK"]
            assert answer.json()["detail"].startswith('The requirement "DISK" is ')


# ---- Changes of resources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "fitting"),
    [
        ("sites: [{name: A, parameters: {Memory: 1000}}]", ""),
        ("sites: [{name: A, vos: [atlas]}]", ""),
        ("sites: [{name: A, vo_parameters: {lhcb: {Memory: 1000}}}]", ""),
        ("sites: [{name: A, vos: [lhcb, atlas], vo_parameters: {atlas: {Memory: 1000}}}]", "q"),
        ("sites: [{name: A, ces: [{name: ce, type: local, parameters: {Memory: 1000}}]}]", ""),
        (
            (
                "sites: [{name: A, ces: [{name: ce, type: local, "
                "queues: [{name: q, cpu_time_s: 1, parameters: {Memory: 1}}]}]}]"
            ),
            "",
        ),
        # What is new says nothing itself, and has all that is said of its site.
        ("sites: [{name: A, ces: [{name: ce, type: local, queues: [{name: r, cpu_time_s: 1}]}]}]", "q r"),
        ("sites: [{name: A, ces: [{name: other, type: local, queues: [{name: r, cpu_time_s: 1}]}]}]", "q r"),
        (
            (
                "sites: [{name: B, parameters: {Memory: 9000}, "
                "ces: [{name: c, type: local, queues: [{name: r, cpu_time_s: 1}]}]}]"
            ),
            "q r",
        ),
        ("sites: [{name: A, status: {state: banned, reason: test}}]", "q"),
    ],
)
def test_a_changed_level_updates_the_pools_at_once(change: str, fitting: str) -> None:
    apply(
        f"{BASE}sites: [{{name: A, vos: [lhcb], parameters: {{Memory: 4000}}, "
        "ces: [{name: ce, type: local, queues: [{name: q, cpu_time_s: 1}]}]}]"
    )
    assert queues("lhcb", Memory=4000) == {"q"}
    apply(change)
    assert set(SubmitPool.objects.get().queues.values_list("name", flat=True)) == set(fitting.split())


def test_jobs_keep_waiting_after_their_definition_is_removed() -> None:
    apply(f"{BASE}requirement_definitions: [{{name: Disk, kind: capacity}}]")
    alice = client("alice")
    (job,) = alice.post("/api/v1/jobs/", {"executable": "a", "requirements": {"Disk": 5}}, format="json").json()["jobs"]
    RequirementDefinition.objects.all().delete()
    # Nobody knows the name now: it is refused, but who came before can be held, released and changed.
    refused = alice.post("/api/v1/jobs/", {"executable": "a", "requirements": {"Disk": 5}}, format="json")
    assert refused.status_code == 400
    address = f"/api/v1/jobs/{job['id']}/"
    assert alice.post(f"{address}hold/").status_code == 200
    SubmitPool.objects.all().delete()
    assert alice.post(f"{address}release/").status_code == 200
    assert alice.patch(address, {"priority": 5}, format="json").status_code == 200
    (pool,) = SubmitPool.objects.all()
    assert pool.requirements == {"disk": 5}
    assert not pool.queues.exists()
    said = alice.get(f"{address}explain/").json()
    assert said["summary"].startswith("It waits because no queue")


# ---- Values that a definition does not allow (ADR 31) ---------------------------------------------------------------

DEFINED = f"{BASE}requirement_definitions: [{{name: Memory, kind: capacity, unit: MB}}]\n"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"4000"', "Memory is a capacity in MB; give a number. Write 4000, without quotes"),
        ('" 4000.5 "', "Memory is a capacity in MB; give a number. Write 4000.5, without quotes"),
        ("4000 MB", "Memory is a capacity in MB; give a number"),
        ("plenty", "Memory is a capacity in MB; give a number"),
        ("true", "Memory is a capacity in MB; give a number"),
        ('[4000, "8000"]', "Memory is a capacity in MB; give a number. Write 8000, without quotes"),
        ("-1", "Memory is a capacity in MB; give a number. It must be 0 or more"),
        (".inf", "use a finite number"),
        (".nan", "use a finite number"),
        ("{Least: 1}", "use a single value, not a mapping"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_non_numeric_capacity_is_refused_with_its_line(value: str, problem: str, dry_run: bool) -> None:
    text = f"{DEFINED}sites:\n- name: A\n  ces:\n  - name: c\n    type: local\n"
    text += "    queues:\n    - name: q\n      cpu_time_s: 1\n"
    text += f"      parameters:\n        Other: x\n        Memory: {value}\n"
    with pytest.raises(ConfigurationError) as refused:
        configure(text.encode(), environ={}, now=NOW, dry_run=dry_run)
    (remark,) = refused.value.problems
    assert (remark.line, remark.sentence) == (text.count("\n", 0, text.index("  Memory:")) + 1, problem)
    assert remark.path.startswith("sites[0].ces[0].queues[0].parameters.Memory")
    assert not VO.objects.exists()


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
@pytest.mark.parametrize("of_vo", [False, True])
def test_capacities_are_checked_at_each_level_and_for_each_vo(level: str, of_vo: bool) -> None:
    says = 'vo_parameters: {lhcb: {MEMORY: "1"}}' if of_vo else 'parameters: {MEMORY: "1"}'
    of = {name: f", {says}" if name == level else "" for name in ("site", "ce", "queue")}
    with pytest.raises(ConfigurationError, match="MEMORY is a capacity in MB"):
        apply(
            f"{DEFINED}sites: [{{name: A{of['site']}, "
            f"ces: [{{name: c, type: local{of['ce']}, queues: [{{name: q, cpu_time_s: 1{of['queue']}}}]}}]}}]"
        )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("capacity", "0"), ("capacity", "[1, 2.5]"), ("set", '"4000"'), ("set", "[1, true, a]"), ("exact", "-1"),
        ("exact", '["1", 1]'), ("set", "false"),
    ],
)  # fmt: skip
def test_comparable_values_are_accepted(kind: str, value: str) -> None:
    apply(
        f"{BASE}requirement_definitions: [{{name: Memory, kind: {kind}}}]\n"
        f"sites: [{{name: A, parameters: {{Memory: {value}}}}}]"
    )


def test_a_definition_of_another_vo_refuses_nothing() -> None:
    definition = f"{BASE}requirement_definitions: [{{name: Memory, kind: capacity, vos: [lhcb]}}]\n"
    apply(f'{definition}sites: [{{name: A, vos: [atlas], parameters: {{Memory: "1"}}}}]')
    apply('sites: [{name: B, vos: [lhcb, atlas], vo_parameters: {atlas: {Memory: "1"}}}]')
    with pytest.raises(ConfigurationError, match=r"line 1: sites\[0\].parameters.Memory: Memory is a capacity"):
        apply('sites: [{name: C, vos: [lhcb, atlas], parameters: {Memory: "1"}}]')
    with pytest.raises(ConfigurationError, match=r"sites\[0\].vos: site A has a Memory that is a capacity"):
        apply("sites: [{name: A, vos: [atlas, lhcb]}]")


def test_a_new_definition_names_the_conflicting_values() -> None:
    apply(f'{BASE}sites: [{{name: A, parameters: {{Memory: "1"}}}}, {{name: B, parameters: {{Memory: 1}}}}]')
    late = "\nrequirement_definitions:\n- name: memory\n  kind: capacity\n"
    with pytest.raises(ConfigurationError, match=r"line 4: .*kind: memory is not a number of 0 or more at site A;"):
        apply(late)
    assert not RequirementDefinition.objects.exists()
    apply(f"{late}sites: [{{name: A, parameters: {{Memory: 1}}}}]")
    assert RequirementDefinition.objects.get().kind == "capacity"


def test_a_definition_changed_to_a_capacity_names_the_conflicting_values() -> None:
    apply(
        f"{BASE}requirement_definitions: [{{name: Memory, kind: set}}]\nsites: [{{name: A, parameters: {{Memory: x}}}}]"
    )
    with pytest.raises(ConfigurationError, match="at site A"):
        apply("requirement_definitions: [{name: Memory, kind: capacity}]")


def test_earlier_conflicting_values_cause_a_warning_only() -> None:
    apply(f"{DEFINED}sites: [{{name: A}}]")
    Site.objects.update(parameters={"Memory": "4000"})
    (warning,) = configure(b"vos: [{name: cms, setup: P}]", environ={}, now=NOW).warnings
    assert str(warning) == (
        "line 1: site A: Memory is a capacity in MB; give a number. Write 4000, without quotes. "
        "No job that requires it runs there"
    )
    assert VO.objects.filter(name="cms").exists()
