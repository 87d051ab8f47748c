"""The endpoints of users in docs/rest.md, row by row and over HTTP only: verbs, paths, names, types and statuses."""

import gzip
import io
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from tests.api.contract.conftest import Caller

JDL = """[
  Executable = "run.sh"; CPUTime = 3600 * 24; JobName = "from JDL"; OwnerGroup = "lhcb_prod";
  Site = "LCG.CERN.ch"; BannedSites = { "LCG.RAL.uk" }; Platform = "x86_64-el8"; GridCE = "ce01.cern.ch"; Priority = 3;
  Requirements = [ Memory = 2000; SoftwareTag = { "AppVersion1" } ];
]"""
#: Every field of a description, with a value that is not its default.
DESCRIPTION: dict[str, Any] = {
    "executable": "run.sh",
    "arguments": "1 2",
    "job_name": "sim",
    "job_group": "mc",
    "job_type": "MCSimulation",
    "cpu_time_s": 400,
    "priority": 7,
    "sites": ["LCG.CERN.ch"],
    "banned_sites": ["LCG.RAL.uk"],
    "grid_ces": ["ce01.cern.ch"],
    "platforms": ["x86_64-el8"],
    "pilot_types": ["generic"],
    "grid_middlewares": ["local"],
    "setup": "LHCb-Devel",
    "tags": ["gpu"],
    "processors": 2,
    "memory_mb": 1000,
    "wall_time_s": 3600,
    "gpus": 1,
    "disk_mb": 5000,
    "stalled_s": 7200,
    "stalled_cpu_fraction": 0.02,
    "container": "docker://registry.cern.ch/lhcb:9",
    "requirements": {"Memory": 2000},
    "software": ["python3"],
    "input_data": ["/lhcb/a"],
    "output_sandbox": ["*.txt"],
    "output_data": ["out.root"],
    "input_data_policy": "in_place",
    "output_se": "CERN-DST",
    "output_path": "/lhcb/lhcb_prod/run1",
    "overwrite": True,
    "std_output": "a.out",
    "std_error": "a.err",
    "environment": {"A": "b"},
}
DEFAULTS: dict[str, Any] = {
    "executable": "run.sh",
    "arguments": "",
    "job_name": "",
    "job_group": "",
    "job_type": "User",
    "cpu_time_s": 86400,
    "priority": 1,
    "sites": [],
    "banned_sites": [],
    "grid_ces": [],
    "platforms": [],
    "pilot_types": [],
    "submit_pools": [],
    "grid_middlewares": [],
    "setup": "LHCb-Production",
    "tags": [],
    "processors": 1,
    "memory_mb": 0,
    "wall_time_s": 0,
    "gpus": 0,
    "disk_mb": 0,
    "stalled_s": None,
    "stalled_cpu_fraction": None,
    "container": "",
    "requirements": {},
    "software": [],
    "input_sandbox": [],
    "input_data": [],
    "output_sandbox": [],
    "output_data": [],
    "input_data_policy": "download",
    "output_se": None,
    "output_path": None,
    "overwrite": False,
    "std_output": "std.out",
    "std_error": "std.err",
    "environment": {},
}


def submit(who: Caller, body: object) -> list[int]:
    """Return the ids of the submitted jobs."""
    return [job["id"] for job in who("POST", "/jobs/", body, status=201)["jobs"]]


def one(who: Caller, **said: object) -> int:
    (job_id,) = submit(who, {"executable": "run.sh", **said})
    return job_id


def job(who: Caller, job_id: int) -> dict[str, Any]:
    found: dict[str, Any] = who("GET", f"/jobs/{job_id}/", status=200)
    return found


# ---- Who one is ------------------------------------------------------------------------------------------------------


def test_a_log_in_answers_a_token_and_its_end(configured: None) -> None:
    answer = Caller()("POST", "/auth/token/", {"username": "alice", "password": "a"}, status=201)
    assert set(answer) == {"token", "expires_at"}
    assert datetime.fromisoformat(answer["expires_at"]).tzinfo is not None
    assert Caller().refused("POST", "/auth/token/", {"username": "alice", "password": "x"}, status=401)


def test_me_returns_user_groups_and_roles(bob: Caller) -> None:
    answer = bob("GET", "/auth/me/", status=200)
    assert answer["username"] == "bob"
    assert [group["name"] for group in answer["groups"]] == ["lhcb_prod"]
    assert answer["roles"] == ["manager"]


# ---- Submitting ------------------------------------------------------------------------------------------------------


def test_a_description_is_answered_with_its_job_group_and_its_queue(alice: Caller) -> None:
    answer = alice("POST", "/jobs/", {"executable": "run"}, status=201)
    assert set(answer) == {"job_group_id", "jobs", "warnings", "findings"}
    assert str(UUID(answer["job_group_id"])) == answer["job_group_id"]
    assert answer["warnings"] == []
    (submitted,) = answer["jobs"]
    assert set(submitted) == {"id", "status", "task_queue"}
    assert submitted["status"] == "Waiting"
    found = job(alice, submitted["id"])
    assert found["task_queue"] == submitted["task_queue"]
    assert found["description"] == {**DEFAULTS, "executable": "run"}
    assert found["group"] == "lhcb_user"


def test_every_field_of_a_description_is_kept_as_it_was_given(alice: Caller, bob: Caller) -> None:
    bob("POST", "/replicas/", {"replicas": [{"lfn": "/lhcb/a", "storage_element": "CERN-DST"}]}, status=201)
    found = job(alice, one(alice, **DESCRIPTION, group="lhcb_prod"))
    assert found["description"] == {**DEFAULTS, **DESCRIPTION}
    assert found["group"] == "lhcb_prod"
    assert found["priority"] == 7


def test_a_jdl_means_the_same_as_its_fields(alice: Caller) -> None:
    (job_id,) = submit(alice, {"jdl": JDL})
    found = job(alice, job_id)
    assert found["group"] == "lhcb_prod"
    assert found["description"] == {
        **DEFAULTS,
        "job_name": "from JDL",
        "sites": ["LCG.CERN.ch"],
        "banned_sites": ["LCG.RAL.uk"],
        "platforms": ["x86_64-el8"],
        "grid_ces": ["ce01.cern.ch"],
        "priority": 3,
        "requirements": {"Memory": 2000, "SoftwareTag": ["AppVersion1"]},
    }


def test_a_list_is_all_or_nothing_and_has_one_job_group(alice: Caller) -> None:
    answer = alice("POST", "/jobs/", {"jobs": [{"executable": "a"}, {"jdl": 'Executable = "b";'}]}, status=201)
    listed = alice("GET", f"/jobs/?job_group_id={answer['job_group_id']}", status=200)["results"]
    assert [row["id"] for row in listed] == [submitted["id"] for submitted in reversed(answer["jobs"])]
    wrong = {"jobs": [{"executable": "a"}, {"executable": "a", "sites": ["LCG.CERN.hc"]}]}
    refusal = alice("POST", "/jobs/", wrong, status=400)
    assert "LCG.CERN.ch" in refusal["errors"]["jobs.1.sites"][0]
    assert len(alice("GET", "/jobs/", status=200)["results"]) == 2


@pytest.mark.parametrize(
    ("parameters", "arguments", "values"),
    [
        ({"values": ["a", 2]}, "%s", ["a", "2"]),
        ({"count": 3, "start": 1, "step": 2, "factor": 2}, "%s", ["1", "4", "10"]),
        ({"seed": {"count": 2, "start": 5}, "name": {"values": ["x", "y"]}}, "%(seed)s %(name)s", ["5 x", "6 y"]),
    ],
)
def test_parameters_make_many_jobs_of_one(alice: Caller, parameters: object, arguments: str, values: list[str]) -> None:
    ids = submit(alice, {"executable": "run.sh", "arguments": arguments, "parameters": parameters})
    assert [job(alice, job_id)["description"]["arguments"] for job_id in ids] == values


def test_a_repeated_request_gets_the_first_answer(alice: Caller, bob: Caller) -> None:
    body = {"executable": "run.sh", "request_id": str(uuid4())}
    assert alice("POST", "/jobs/", body, status=201) == alice("POST", "/jobs/", body, status=201)
    assert alice.refused("POST", "/jobs/", {**body, "executable": "other"}, status=409) == "request_id_conflict"
    bob("POST", "/jobs/", {**body, "executable": "of another owner"}, status=201)
    assert len(alice("GET", "/jobs/?owner=alice", status=200)["results"]) == 1


def test_cfg_is_read_as_jdl_is(alice: Caller) -> None:
    (of_cfg,) = submit(alice, {"cfg": "Executable = run.sh\nCPUTime = 3600\nTag = a, b"})
    (of_jdl,) = submit(alice, {"jdl": 'Executable = "run.sh"; CPUTime = 3600; Tag = {"a", "b"};'})
    assert job(alice, of_cfg)["description"] == job(alice, of_jdl)["description"]
    assert alice.refused("POST", "/jobs/", {"cfg": "Executable"}, status=400) == "invalid_cfg"


def test_an_unknown_field_is_refused_with_the_nearest_known_name(alice: Caller) -> None:
    answer = alice("POST", "/jobs/", {"executable": "a", "cpu_times": 1}, status=400)
    assert '"cpu_time_s"' in answer["errors"]["cpu_times"][0]


# ---- Finding ---------------------------------------------------------------------------------------------------------


def test_lists_are_filtered_ordered_and_paged_by_cursor(alice: Caller) -> None:
    ids = [one(alice, job_name=f"job {number % 2}", job_group="mc") for number in range(5)]
    page = alice("GET", "/jobs/?page_size=2", status=200)
    assert set(page) == {"next", "previous", "results"}
    assert page["previous"] is None
    assert [row["id"] for row in page["results"]] == [ids[4], ids[3]]
    following = APIClient().get(page["next"], HTTP_AUTHORIZATION=f"Bearer {alice.token}").json()
    assert [row["id"] for row in following["results"]] == [ids[2], ids[1]]
    back = APIClient().get(following["previous"], HTTP_AUTHORIZATION=f"Bearer {alice.token}").json()
    assert back["results"] == page["results"]

    def found(query: str) -> list[int]:
        return [row["id"] for row in alice("GET", f"/jobs/?{query}", status=200)["results"]]

    assert found("ordering=id") == ids
    assert found("status=waiting&job_name=job%201") == [ids[3], ids[1]]
    assert found("job_group=mc&group=lhcb_user&owner=alice&submitted_after=2020-01-01T00:00:00Z") == ids[::-1]
    assert found("submitted_after=2999-01-01T00:00:00Z") == []
    assert found("site=LCG.CERN.ch") == []


def test_a_summary_counts_by_the_requested_property(alice: Caller) -> None:
    one(alice)
    one(alice, job_type="MCSimulation", group="lhcb_prod")
    answer = alice("GET", "/jobs/summary/?group_by=status,site,owner,group,job_type", status=200)
    assert answer["results"] == [
        {"status": "Waiting", "site": None, "owner": "alice", "group": group, "job_type": job_type, "count": 1}
        for group, job_type in (("lhcb_prod", "MCSimulation"), ("lhcb_user", "User"))
    ]


def test_a_job_shows_its_status(alice: Caller) -> None:
    found = job(alice, one(alice))
    assert {"id", "status", "minor_status", "application_status", "task_queue", "description", "site", "pilot"} <= set(
        found
    )
    assert (found["status"], found["site"], found["pilot"]) == ("Waiting", None, None)
    assert datetime.fromisoformat(found["submitted_at"]).tzinfo is not None
    assert set(found["usage"]) == {"cpu_s", "wall_s", "memory_mb", "disk_mb"}


def test_a_history_lists_every_change_oldest_first(alice: Caller) -> None:
    job_id = one(alice)
    alice("POST", f"/jobs/{job_id}/hold/", {"reason": "later"}, status=200)
    alice("POST", f"/jobs/{job_id}/release/", status=200)
    history = alice("GET", f"/jobs/{job_id}/history/", status=200)
    assert [change["status"] for change in history][-3:] == ["Waiting", "Held", "Waiting"]
    assert {"changed_at", "status", "minor_status", "application_status", "source"} == set(history[0])


def test_an_explanation_says_why_a_job_waits(alice: Caller, charlie: Caller) -> None:
    waiting, held = one(alice, processors=2), one(alice)
    answer = alice("GET", f"/jobs/{waiting}/explain/", status=200)
    assert set(answer) == {
        "job_id",
        "status",
        "summary",
        "task_queue",
        "priority_rank",
        "expected_share",
        "start_s",
        "conditions",
        "queues",
        "limits",
        "warnings",
        "advice",
    }
    assert (answer["job_id"], answer["status"]) == (waiting, "Waiting")
    assert answer["task_queue"] == job(alice, waiting)["task_queue"]
    assert [each["name"] for each in answer["conditions"]][-9:] == [
        *("processors", "memory", "wall_time", "gpus", "disk", "container", "downtime", "throttle", "limit")
    ]
    assert all(set(each) == {"name", "passed_queues", "failed_queues", "detail"} for each in answer["conditions"])
    assert {(each["queue"], each["fits"]) for each in answer["queues"]} == {("grid", True), ("short", False)}
    assert all(set(each) == {"site", "ce", "queue", "fits", "reasons"} for each in answer["queues"])
    assert alice("GET", f"/jobs/{waiting}/explain/?site=LCG.RAL.uk", status=200)["queues"] == []
    assert alice.refused("GET", f"/jobs/{waiting}/explain/?site=LCG.RAL.ku", status=400) == "unknown_place"
    alice("POST", f"/jobs/{held}/hold/", {"reason": "later"}, status=200)
    assert alice("GET", f"/jobs/{held}/explain/", status=200)["priority_rank"] is None
    assert charlie.refused("GET", f"/jobs/{waiting}/explain/", status=404) == "not_found"


# ---- Acting ----------------------------------------------------------------------------------------------------------


def test_actions_answer_the_new_state_or_409(alice: Caller) -> None:
    job_id = one(alice)
    for action, body, status in (
        ("hold", {"reason": "later"}, "Held"),
        ("release", None, "Waiting"),
        ("kill", None, "Killed"),
        ("delete", None, "Deleted"),
    ):
        answer = alice("POST", f"/jobs/{job_id}/{action}/", body, status=200)
        assert (answer["id"], answer["status"]) == (job_id, status)
    for action in ("hold", "release", "kill", "reschedule", "delete"):
        assert alice.refused("POST", f"/jobs/{job_id}/{action}/", status=409) == "illegal_transition"


def test_a_waiting_job_that_is_changed_moves_to_another_queue(alice: Caller) -> None:
    job_id, other = one(alice), one(alice)
    changes = {"priority": 9, "sites": ["LCG.CERN.ch"], "banned_sites": ["LCG.RAL.uk"], "job_name": "renamed"}
    answer = alice("PATCH", f"/jobs/{job_id}/", changes, status=200)
    assert answer["task_queue"] != job(alice, other)["task_queue"]
    assert {name: answer["description"][name] for name in changes} == changes
    alice("POST", f"/jobs/{job_id}/kill/", status=200)
    assert alice.refused("PATCH", f"/jobs/{job_id}/", {"priority": 1}, status=409) == "not_editable"
    assert alice.refused("PATCH", f"/jobs/{other}/", {"executable": "x"}, status=400)


def test_a_bulk_action_reports_refused_jobs(alice: Caller) -> None:
    ids = [one(alice), one(alice), one(alice)]
    alice("POST", f"/jobs/{ids[0]}/kill/", status=200)
    answer = alice("POST", "/jobs/bulk/", {"action": "hold", "ids": [*ids, 10**9]}, status=200)
    assert answer == {
        "done": 2,
        "refused": [{"id": ids[0], "code": "illegal_transition"}, {"id": 10**9, "code": "not_found"}],
    }
    by_filter = {"action": "release", "filter": {"status": ["Held"], "owner": "alice"}}
    assert alice("POST", "/jobs/bulk/", by_filter, status=200) == {"done": 2, "refused": []}


def test_a_killed_job_is_retried_with_changes(alice: Caller) -> None:
    ids = [one(alice), one(alice)]
    alice("POST", f"/jobs/{ids[0]}/kill/", status=200)
    answer = alice("POST", "/jobs/retry/", {"ids": ids, "changes": {"memory_mb": 4000}}, status=201)
    assert (answer["retried"], answer["refused"]) == ([ids[0]], [{"id": ids[1], "code": "illegal_transition"}])
    successor = answer["jobs"][0]["id"]
    new, old = alice("GET", f"/jobs/{successor}/", status=200), alice("GET", f"/jobs/{ids[0]}/", status=200)
    assert (new["retry_of"], new["description"]["memory_mb"], old["retried_as"]) == (ids[0], 4000, successor)
    assert alice.refused("POST", "/jobs/retry/", {"ids": [ids[1]], "changes": {"memory_mb": 1}}, status=409)


def test_members_of_a_sharing_group_manage_each_others_jobs_and_strangers_see_none(
    alice: Caller, bob: Caller, charlie: Caller
) -> None:
    shared = one(alice, group="lhcb_prod")
    for who, status in ((bob, 200), (charlie, 404), (Caller(), 401)):
        who("GET", f"/jobs/{shared}/", status=status)
    assert charlie.refused("POST", f"/jobs/{shared}/kill/", status=404) == "not_found"
    assert bob("POST", f"/jobs/{shared}/kill/", status=200)["status"] == "Killed"


# ---- Sandboxes -------------------------------------------------------------------------------------------------------


def upload(who: Caller, content: bytes, *, status: int = 201, name: str = "data.txt") -> Any:
    return who("POST", "/sandboxes/", {"file": SimpleUploadedFile(name, content)}, status=status, format="multipart")


def test_a_sandbox_reference_is_by_content_and_usable_by_its_uploader(
    alice: Caller, bob: Caller, charlie: Caller
) -> None:
    reference = upload(alice, b"hello")["sandbox"]
    assert reference == "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert upload(alice, b"hello")["sandbox"] == reference
    assert job(alice, one(alice, input_sandbox=[reference]))["description"]["input_sandbox"] == [reference]
    one(bob, input_sandbox=[reference])  # a mate of a sharing group
    assert charlie.refused("POST", "/jobs/", {"executable": "a", "input_sandbox": [reference]}, status=400)
    assert upload(charlie, b"hello")["sandbox"] == reference
    one(charlie, input_sandbox=[reference])


def test_no_output_yet_is_404(alice: Caller) -> None:
    assert alice.refused("GET", f"/jobs/{one(alice)}/output/", status=404) == "no_output"
    upload(alice, gzip.compress(io.BytesIO(b"x").read()))


# ---- What is there ---------------------------------------------------------------------------------------------------


def test_task_queues_groups_and_sites_are_lists(alice: Caller) -> None:
    one(alice)
    (queue,) = alice("GET", "/task-queues/", status=200)["results"]
    assert (queue["owner"], queue["group"], queue["jobs"]) == ("alice", "lhcb_user", 1)
    assert queue["priority"] == pytest.approx(1000)
    assert [group["name"] for group in alice("GET", "/groups/", status=200)["results"]] == ["lhcb_prod", "lhcb_user"]
    sites = {site["name"]: site for site in alice("GET", "/sites/", status=200)["results"]}
    assert {name: site["state"] for name, site in sites.items()} == {"LCG.CERN.ch": "active", "LCG.RAL.uk": "banned"}
    assert sites["LCG.CERN.ch"]["ces"][0]["queues"][0]["name"] == "grid"
