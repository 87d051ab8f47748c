"""docs/rest.md, pilots, matching and monitoring: the life of a pilot and of a lease, over HTTP only."""

import gzip
import io
import tarfile
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.api.contract.conftest import Caller
from tests.api.contract.test_users import job, one, submit, upload

USAGE = {"cpu_s": 1.5, "wall_s": 2, "memory_mb": 100, "disk_mb": 1}


def offer(**said: object) -> dict[str, object]:
    return {"cpu_time_s": 300_000, "memory_mb": 4000, "processors": 2, "request_id": str(uuid4()), **said}


def lease(pilot: Caller, **said: object) -> tuple[dict[str, Any], Caller]:
    """Return a lease, and the caller with its token."""
    given: dict[str, Any] = pilot("POST", "/matches/", offer(**said), status=201)
    return given, Caller(given["token"])


def output_archive() -> SimpleUploadedFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("std.out"))
    return SimpleUploadedFile("out.tar.gz", gzip.compress(packed.getvalue()))


# ---- The pilot -------------------------------------------------------------------------------------------------------


def test_a_site_registers_a_generic_pilot(site: Caller) -> None:
    place = {"vo": "lhcb", "site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid"}
    answer = site("POST", "/pilots/register/", place, status=201)
    assert set(answer) == {"pilot", "token", "expires_at"}
    assert isinstance(answer["pilot"], int)
    assert datetime.fromisoformat(answer["expires_at"]).tzinfo is not None
    assert Caller(answer["token"])("GET", "/pilots/config/", status=200)["type"] == "generic"
    assert site.refused("POST", "/pilots/register/", {**place, "site": "LCG.RAL.uk"}, status=403) == "not_your_site"
    assert site.refused("POST", "/pilots/register/", {**place, "vo": "atlas"}, status=400)


def test_a_pilot_reads_its_configuration_and_reports(pilot: Caller) -> None:
    told = pilot("GET", "/pilots/config/", status=200)
    assert (told["vo"], told["place"]["queue"], told["lease_s"]) == ("lhcb", "grid", 1800)
    report = {"host_name": "node1", "ok": True, "checks": [{"name": "disk", "ok": True}], "node": {"cores": 4}}
    assert pilot("POST", "/pilots/report/", report, status=200)["status"] == "Running"
    pilot("POST", "/pilots/report/", {"leaving": "done"}, status=200)
    assert pilot.refused("POST", "/matches/", offer(), status=403)


def test_a_pilot_sends_its_log_and_a_manager_reads_it(pilot: Caller, alice: Caller, bob: Caller) -> None:
    assert pilot("POST", "/pilots/log/", {"offset": 0, "text": "one\n"}, status=200) == {"received": 4}
    assert pilot("POST", "/pilots/log/", {"offset": 0, "text": "one\ntwo\n"}, status=200) == {"received": 8}
    pilot_id = pilot("GET", "/pilots/config/", status=200)["pilot"]
    read = bob("GET", f"/pilots/{pilot_id}/log/", status=200)
    assert set(read) == {"pilot", "received", "changed_at", "text", "batch_output"}
    assert (read["pilot"], read["received"], read["text"]) == (pilot_id, 8, "one\ntwo\n")
    assert alice.refused("GET", f"/pilots/{pilot_id}/log/", status=404)
    assert pilot.refused("GET", f"/pilots/{pilot_id}/log/", status=403)


def test_people_and_pilots_have_disjoint_addresses(alice: Caller, pilot: Caller) -> None:
    for method, address in (("GET", "/pilots/config/"), ("POST", "/pilots/report/"), ("POST", "/matches/")):
        assert alice.refused(method, address, status=403)
    for method, address in (("GET", "/jobs/"), ("POST", "/jobs/"), ("POST", "/matches/preview/"), ("GET", "/auth/me/")):
        assert pilot.refused(method, address, status=403)


# ---- The match -------------------------------------------------------------------------------------------------------


def test_an_empty_match_is_204_with_retry_after(pilot: Caller) -> None:
    answer = pilot("POST", "/matches/", offer(), status=204)
    assert (answer.content, int(answer["Retry-After"]) > 0) == (b"", True)


def test_a_lease_is_the_job_with_its_description(alice: Caller, pilot: Caller) -> None:
    job_id = one(alice, arguments="1 2", group="lhcb_prod")
    given, _ = lease(pilot)
    assert set(given) == {"match_id", "expires_at", "token", "job"}
    assert str(UUID(given["match_id"])) == given["match_id"]
    described = job(alice, job_id)["description"]
    assert {name: given["job"][name] for name in described} == described
    assert (given["job"]["id"], given["job"]["owner"], given["job"]["group"]) == (job_id, "alice", "lhcb_prod")
    found = job(alice, job_id)
    assert (found["status"], found["site"], found["task_queue"]) == ("Matched", "LCG.CERN.ch", None)


def test_a_repeated_offer_gets_the_same_lease(alice: Caller, pilot: Caller) -> None:
    submit(alice, {"executable": "a", "parameters": {"count": 2}})
    said = offer()
    assert [pilot("POST", "/matches/", said, status=201)["match_id"] for _ in range(2)] == [
        pilot("POST", "/matches/", said, status=201)["match_id"]
    ] * 2


def test_max_jobs_is_answered_with_leases_that_share_the_slot(alice: Caller, pilot: Caller) -> None:
    submit(alice, {"executable": "a", "parameters": {"count": 3}})
    answer = pilot("POST", "/matches/", offer(max_jobs=3), status=201)
    assert set(answer) == {"leases"}
    assert len(answer["leases"]) == 2  # of two processors


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"site": "LCG.RAL.uk"}, 403, "not_your_queue"),
        ({"queue": "short"}, 403, "not_your_queue"),
        ({"setup": "LHCb"}, 400, "bad_offer"),
        ({"required_tags": ["gpu"]}, 400, "bad_offer"),
        ({"cpu_time_s": None}, 400, "invalid_input"),
        ({"request_id": None}, 400, "invalid_input"),
        ({"cpu_tiem_s": 5}, 400, "invalid_input"),
        ({"owner": "alice"}, 400, "invalid_input"),
    ],
)
def test_an_invalid_offer_claims_nothing(
    alice: Caller, pilot: Caller, said: dict[str, object], status: int, code: str
) -> None:
    job_id = one(alice)
    assert pilot.refused("POST", "/matches/", offer(**said), status=status) == code
    assert job(alice, job_id)["status"] == "Waiting"


# ---- The lease -------------------------------------------------------------------------------------------------------


def test_a_job_runs_to_its_end_and_its_output_can_be_read(alice: Caller, pilot: Caller) -> None:
    reference = upload(alice, b"input", name="in.txt")["sandbox"]
    job_id = one(alice, input_sandbox=[reference])
    given, payload = lease(pilot)
    at = f"/matches/{given['match_id']}"
    fetched = payload("GET", f"{at}/sandboxes/{reference}/", status=200)
    assert b"".join(fetched.streaming_content) == b"input"
    assert pilot.refused("GET", f"{at}/sandboxes/{reference}/", status=403)  # the job token only

    answer = payload("POST", f"{at}/status/", {"status": "Running", "application_status": "event 1"}, status=200)
    assert {"commands", "expires_at"} <= set(answer)
    beat = {**USAGE, "std_output": "line 1\nline 2", "std_error": "!", "acknowledged": []}
    assert pilot("POST", f"{at}/heartbeat/", beat, status=200)["commands"] == []
    peeked = alice("GET", f"/jobs/{job_id}/peek/", status=200)
    assert (peeked["std_output"], peeked["std_error"]) == ("line 1\nline 2", "!")
    payload("POST", f"{at}/status/", {"status": "Completing"}, status=200)
    stored = payload("POST", f"{at}/sandboxes/", {"file": output_archive()}, status=201, format="multipart")["sandbox"]

    last = {"exit_code": 0, "usage": USAGE, "output_sandbox": stored, "std_output": "line 3", "std_error": ""}
    for _ in range(2):  # repeating it is harmless
        assert payload("POST", f"{at}/finish/", last, status=200) == {"status": "Done"}
    found = job(alice, job_id)
    assert (found["status"], found["exit_code"], found["usage"]["memory_mb"]) == ("Done", 0, 100)
    peeked = alice("GET", f"/jobs/{job_id}/peek/", status=200)
    assert (peeked["std_output"], peeked["std_error"]) == ("line 3", "")
    output = alice("GET", f"/jobs/{job_id}/output/", status=200)
    assert output["Content-Type"] == "application/gzip"
    assert b"std.out" in gzip.decompress(b"".join(output.streaming_content))


@pytest.mark.parametrize(("exit_code", "status"), [(0, "Done"), (222, "Waiting"), (3, "Failed"), (None, "Failed")])
def test_the_exit_code_determines_the_final_status(
    alice: Caller, pilot: Caller, exit_code: int | None, status: str
) -> None:
    job_id = one(alice)
    given, payload = lease(pilot)
    at = f"/matches/{given['match_id']}"
    payload("POST", f"{at}/status/", {"status": "Running"}, status=200)
    payload("POST", f"{at}/finish/", {"exit_code": exit_code, "usage": {}}, status=200)
    found = job(alice, job_id)
    assert found["status"] == status
    assert found["exit_code"] == (None if status == "Waiting" else exit_code)  # a job that waits has none yet
    assert ("Rescheduled" in [change["status"] for change in alice("GET", f"/jobs/{job_id}/history/", status=200)]) is (
        exit_code == 222
    )


def test_a_kill_command_is_repeated_until_acknowledged_and_then_the_lease_ends(alice: Caller, pilot: Caller) -> None:
    job_id = one(alice)
    given, payload = lease(pilot)
    at = f"/matches/{given['match_id']}"
    killed = alice("POST", f"/jobs/{job_id}/kill/", status=200)
    assert (killed["status"], killed["minor_status"]) == ("Killed", "Marked for termination")
    for _ in range(2):
        (command,) = payload("POST", f"{at}/heartbeat/", USAGE, status=200)["commands"]
        assert set(command) == {"id", "name", "arguments"}
        assert command["name"] == "kill"
    payload("POST", f"{at}/heartbeat/", {"acknowledged": [command["id"]]}, status=200)
    for report, body in (("status", {"status": "Running"}), ("heartbeat", {})):
        assert payload.refused("POST", f"{at}/{report}/", body, status=409) == "lease_ended"


def test_a_lease_of_another_pilot_is_not_found(alice: Caller, pilot: Caller, site: Caller) -> None:
    one(alice)
    given, _ = lease(pilot)
    place = {"vo": "lhcb", "site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid"}
    other = Caller(site("POST", "/pilots/register/", place, status=201)["token"])
    assert other.refused("POST", f"/matches/{given['match_id']}/heartbeat/", {}, status=404) == "not_found"
    assert alice.refused("POST", f"/matches/{given['match_id']}/heartbeat/", {}, status=403)


# ---- What an offer would get -----------------------------------------------------------------------------------------


def test_a_preview_lists_every_fitting_queue_and_claims_nothing(alice: Caller, bob: Caller) -> None:
    job_id = one(alice)
    seen = bob("POST", "/matches/preview/", {"cpu_time_s": 300_000}, status=200)
    assert set(seen) == {"task_queues", "conditions"}
    (queue,) = seen["task_queues"]
    assert set(queue) == {"id", "owner", "group", "cpu_time_s", "priority", "jobs", "chance"}
    assert queue["chance"] == pytest.approx(1.0)
    assert [set(condition) for condition in seen["conditions"]] == [{"name", "left"}] * 22
    assert job(alice, job_id)["status"] == "Waiting"
    assert alice.refused("POST", "/matches/preview/", {"cpu_time_s": 300_000}, status=403)


def test_submit_pools_of_a_queue_are_ids_and_all_of_them_objects(alice: Caller, pilot: Caller) -> None:
    one(alice, requirements={"Memory": 2000})
    place = "site=LCG.CERN.ch&ce=ce01.cern.ch"
    (pool,) = alice("GET", "/submit-pools/", status=200)["submit_pools"]
    assert (pool["requirements"], pool["queues"]) == ({"memory": 2000}, ["LCG.CERN.ch/ce01.cern.ch/grid"])
    for who in (alice, pilot):
        assert who("GET", f"/submit-pools/?{place}&queue=grid", status=200) == {"submit_pools": [pool["id"]]}
        assert who("GET", f"/submit-pools/?{place}&queue=short", status=200) == {"submit_pools": []}


# ---- Machines --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_liveness_and_readiness_are_reported() -> None:
    assert Client().get("/healthz").status_code == 200
    assert set(Client().get("/readyz").json()) >= {"database", "broker", "beat"}


# ---- The site --------------------------------------------------------------------------------------------------------


def test_an_advertisement_returns_the_throttle_state(gateway: Caller, site: Caller) -> None:
    at = "/sites/LCG.RAL.uk/advertisements/"
    said = {"current_submitting_jobs": 1, "current_gathering_output_jobs": 0, "current_jobs": 3, "sequence": 4}
    answer = gateway("POST", at, said, status=200)
    assert set(answer) == {"policy", "cur_matches", "accepting", "expires_at"}
    assert (answer["policy"], answer["cur_matches"], answer["accepting"]) == ("level0", 1, True)
    assert datetime.fromisoformat(answer["expires_at"]).tzinfo is not None
    ignored = gateway("POST", at, {**said, "current_submitting_jobs": 5}, status=200)
    more = {name: ignored.pop(name) for name in ("why_ignored", "last_sequence", "sequence_forgotten_at")}
    assert ignored == {**answer, "ignored": True}
    assert more["why_ignored"].startswith("Its sequence 4 is not above 4")
    assert (more["last_sequence"], more["sequence_forgotten_at"]) == (4, answer["expires_at"])
    classad = "[ CurrentSubmittingJobs = 5; WantAdReevaluate = true; ]"
    assert gateway("POST", at, {"classad": classad, "sequence": 5}, status=200)["accepting"] is False
    assert site.refused("POST", at, said, status=403)
    assert gateway.refused("POST", "/sites/LCG.CERN.ch/advertisements/", said, status=404)
    assert gateway.refused("POST", at, {**said, "current_jbos": 1}, status=400)
