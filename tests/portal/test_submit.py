"""Submitting by the form and by JDL."""

import io
import tarfile
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from tests.factories import make_group, make_queue, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.models import Job, Sandbox, Submission

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandboxes_apart")]


def form(**others: Any) -> dict[str, Any]:
    return {
        "request_id": str(uuid4()),
        "executable": "/bin/echo",
        "arguments": "hello",
        "cpu_time_s": "500 s",
        "priority": "1",
        "group": "lhcb_user",
        **others,
    }


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 400
    errors: dict[str, list[str]] = response.context["form"].errors
    return errors


def test_the_form_submits_a_job_and_shows_it(portal: Client, alice: User) -> None:
    fields = form(
        job_name="hello",
        priority="10",
        sites="LCG.CERN.ch, LCG.PIC.es",
        banned_sites="LCG.PIC.es",
        output_sandbox="*.root, log file.txt",
    )
    response = portal.post("/jobs/submit/", fields, follow=True)
    job = Job.objects.get()
    assert response.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
    assert "1 job submitted." in response.content.decode()
    assert (job.owner, job.group.name, job.priority, job.job_name) == (alice, "lhcb_user", 10, "hello")
    wanted = {
        name: job.description[name] for name in ("executable", "arguments", "cpu_time_s", "sites", "banned_sites")
    }
    assert wanted == {
        "executable": "/bin/echo",
        "arguments": "hello",
        "cpu_time_s": 500,
        "sites": ["LCG.CERN.ch", "LCG.PIC.es"],
        "banned_sites": ["LCG.PIC.es"],
    }
    assert job.description["output_sandbox"] == ["*.root", "log file.txt"]


def test_the_form_asks_for_resources(portal: Client) -> None:
    asked = {"wall_time_s": "90 min", "processors": "4", "memory_mb": "2", "gpus": "1", "disk_mb": "500 MB"}
    portal.post("/jobs/submit/", form(**asked, cpu_time_s="1.5", container="docker://alpine"))
    job = Job.objects.get()
    assert {name: job.description[name] for name in ("cpu_time_s", *asked)} == {
        "cpu_time_s": 5400,
        "wall_time_s": 5400,
        "processors": 4,
        "memory_mb": 2000,
        "gpus": 1,
        "disk_mb": 500,
    }
    page = portal.get(f"/jobs/{job.pk}/?tab=resources").content.decode()
    page += portal.get(f"/jobs/{job.pk}/?tab=description").content.decode()
    for text in ("Wall-clock time (s)", "GPUs", "Disk (MB)", "docker://alpine"):
        assert text in page


def test_resources_that_are_left_empty_are_not_asked_for(portal: Client) -> None:
    fields = ("wall_time_s", "processors", "memory_mb", "gpus", "disk_mb")
    portal.post("/jobs/submit/", form(**dict.fromkeys(fields, "")))
    assert [Job.objects.get().description[name] for name in fields] == [0, 1, 0, 0, 0]


def test_parametric_values_make_a_job_of_each(portal: Client) -> None:
    portal.post("/jobs/submit/", form(arguments="--seed %s", values="1\n\n two words \n3"))
    arguments = Job.objects.order_by("pk").values_list("stored_description__description__arguments", flat=True)
    assert list(arguments) == ["--seed 1", "--seed two words", "--seed 3"]


def test_input_files_are_uploaded_with_the_form(portal: Client) -> None:
    files = [SimpleUploadedFile("run.sh", b"#!/bin/sh\necho hi"), SimpleUploadedFile("data.txt", b"1 2 3")]
    portal.post("/jobs/submit/", form(executable="./run.sh", input_files=files))
    given = Job.objects.get().input_sandboxes.order_by("file_name").values_list("file_name", flat=True)
    assert list(given) == ["data.txt", "run.sh"]


def test_an_empty_file_is_a_file(portal: Client) -> None:
    portal.post("/jobs/submit/", form(input_files=[SimpleUploadedFile("empty.txt", b"")]))
    assert Job.objects.get().input_sandboxes.get().file_name == "empty.txt"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("executable", "", "This field is required."),
        ("executable", "x" * 2000, "at most 1024 characters"),
        ("cpu_time_s", "0", "Write at least 1 s."),
        ("cpu_time_s", "86400", "86400 without a unit would be hours; write 86400 s"),
        ("cpu_time_s", "", "This field is required."),
        ("priority", "11", "less than or equal to 10"),
        ("wall_time_s", "-1", "Write a number and a unit, such as 24 h or 90 min."),
        ("wall_time_s", "99999999 s", "Write at most 8784 h."),
        ("processors", "0", "greater than or equal to 1"),
        ("gpus", "1.5", "Enter a whole number"),
        ("disk_mb", "x", "Write a number and a unit, such as 2 GB"),
        ("others", "[", "Line 1, column 2"),
        ("others", '{"priority": 3, "executable": "y"}', '"executable" has a field of its own'),
        ("container", "instance://other", "Images come from"),
        ("sites", "LCG.CERN.hc", 'Did you mean "LCG.CERN.ch"?'),
        ("banned_sites", "Nowhere", 'No site of the VO lhcb is called "Nowhere".'),
        ("output_sandbox", "../secret", "not a file in the job's directory"),
        ("output_sandbox", "/etc/passwd", "not a file in the job's directory"),
        ("job_name", "a\x01b", "free of control characters"),
        ("group", "atlas_user", "Select a valid choice"),
        ("values", "\n".join(map(str, range(10_001))), "10000"),
    ],
)
def test_form_errors_are_shown_beside_their_fields(field: str, value: str, sentence: str, portal: Client) -> None:
    response = portal.post("/jobs/submit/", form(**{field: value}))
    assert sentence in " ".join(errors_of(response)[field])
    page = response.content.decode()
    assert "Nothing was submitted." in page
    assert 'class="field wrong"' in page
    assert not Job.objects.exists()
    assert not Submission.objects.exists()


def test_sites_that_are_all_banned_are_refused(portal: Client) -> None:
    response = portal.post("/jobs/submit/", form(sites="LCG.CERN.ch", banned_sites="LCG.CERN.ch"))
    assert "none is left" in errors_of(response)["sites"][0]


def test_files_that_were_uploaded_need_not_be_chosen_again(portal: Client) -> None:
    refused = portal.post(
        "/jobs/submit/", form(sites="Nowhere", input_files=[SimpleUploadedFile("run.sh", b"#!/bin/sh\necho hi")])
    )
    page = refused.content.decode()
    assert "Files already uploaded" in page
    assert "run.sh" in page
    kept = [f"{file.reference} {file.name}" for file in refused.context["form"].kept_files]
    assert len(kept) == 1
    portal.post("/jobs/submit/", form(kept=kept))
    assert Job.objects.get().input_sandboxes.get().file_name == "run.sh"


def test_a_forged_reference_to_a_strangers_file_is_refused(portal: Client, client_of: ClientOf) -> None:
    stranger = client_of(make_user(groups=[make_group(name="other")]))
    stranger.post("/jobs/submit/", form(group="other", input_files=[SimpleUploadedFile("secret", b"secret")]))
    digest = Sandbox.objects.get().digest
    jobs = Job.objects.count()
    response = portal.post("/jobs/submit/", form(kept=[f"sha256:{digest} secret"]))
    assert "is not a sandbox that you" in errors_of(response)["input_files"][0]
    assert Job.objects.count() == jobs


@pytest.mark.parametrize("kept", ["garbage", "sha256:xyz name", " ", "sha256:"])
def test_forged_references_are_ignored(kept: str, portal: Client) -> None:
    assert portal.post("/jobs/submit/", form(kept=[kept])).status_code in {302, 400}


def test_an_unsafe_archive_is_refused_beside_the_files(portal: Client) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../escape"), io.BytesIO())
    files = [SimpleUploadedFile("bad.tar.gz", packed.getvalue())]
    response = portal.post("/jobs/submit/", form(input_files=files))
    assert response.status_code == 400
    assert not Sandbox.objects.exists()


def test_too_many_files_are_refused(portal: Client) -> None:
    files = [SimpleUploadedFile(f"f{number}", b"x") for number in range(21)]
    assert "at most 20 files" in errors_of(portal.post("/jobs/submit/", form(input_files=files)))["input_files"][0]


def test_a_file_that_is_too_large_is_refused_beside_the_files(portal: Client, settings: Settings) -> None:
    settings.WMS_SANDBOX_MAX_BYTES = 1000
    response = portal.post("/jobs/submit/", form(input_files=[SimpleUploadedFile("big", b"x" * 1001)]))
    assert response.status_code == 400
    assert "A sandbox may have 1000 bytes" in response.content.decode()
    assert not Job.objects.exists()


def test_an_oversized_body_is_refused_before_it_is_read(portal: Client, settings: Settings) -> None:
    settings.WMS_SANDBOX_MAX_BYTES = 1000
    huge = SimpleUploadedFile("huge", b"x" * (2 * 1024 * 1024))
    response = portal.post("/jobs/submit/", form(input_files=[huge]))
    assert response.status_code == 413
    assert "These files are too large" in response.content.decode()


def test_the_same_form_sent_twice_submits_once(portal: Client) -> None:
    fields = form()
    first, second = (portal.post("/jobs/submit/", fields)["Location"] for _ in range(2))
    assert first == second
    assert Job.objects.count() == 1


def test_a_changed_form_with_the_same_request_id_asks_for_confirmation(portal: Client) -> None:
    fields = form()
    portal.post("/jobs/submit/", fields)
    refused = portal.post("/jobs/submit/", {**fields, "arguments": "bye"})
    assert "This form was sent before with other values" in refused.content.decode()
    assert Job.objects.count() == 1
    fresh = refused.context["form"]["request_id"].value()
    assert portal.post("/jobs/submit/", {**fields, "arguments": "bye", "request_id": fresh}).status_code == 302
    assert Job.objects.count() == 2


def test_a_user_without_a_group_is_shown_what_to_do(client_of: ClientOf) -> None:
    response = client_of(make_user()).post("/jobs/submit/", form(group=""))
    assert "You are in no group" in errors_of(response)["group"][0]


def test_a_member_of_several_groups_chooses_one(client_of: ClientOf, group: Group) -> None:
    browser = client_of(make_user(groups=[group, make_group(name="lhcb_prod", vo=group.vo)]))
    assert "Name the group to act in" in errors_of(browser.post("/jobs/submit/", form(group="")))["group"][0]
    browser.post("/jobs/submit/", form(group="lhcb_prod"))
    assert Job.objects.get().group.name == "lhcb_prod"


# ---- JDL -------------------------------------------------------------------------------------------------------------

JDL = '[ Executable = "/bin/echo"; Arguments = "%n"; Parameters = 3; CPUTime = 500; JobName = "many"; ]'


def of_jdl(text: str, **others: Any) -> dict[str, Any]:
    return {"jdl": text, "request_id": str(uuid4()), "group": "lhcb_user", **others}


def test_a_jdl_submits_its_jobs(portal: Client) -> None:
    response = portal.post("/jobs/submit/jdl/", of_jdl(JDL), follow=True)
    assert "3 jobs submitted." in response.content.decode()
    assert Job.objects.filter(job_name="many").count() == 3


def test_the_example_in_the_text_area_works(portal: Client) -> None:
    example = portal.get("/jobs/submit/jdl/").context["form"]["jdl"].value()
    assert portal.post("/jobs/submit/jdl/", of_jdl(example)).status_code == 302
    assert Job.objects.count() == 3


@pytest.mark.parametrize(
    ("text", "field", "sentence"),
    [
        ("", "jdl", "This field is required."),
        ("[ Executable = ", "jdl", "Line 1, column 16"),
        ('[ Executble = "x"; ]', "jdl", 'Did you mean "Executable"'),
        ('[ Executable = "x"; CPUTime = -1; ]', "__all__", "cpu_time_s must be"),
        ('[ Executable = "x"; OwnerGroup = "atlas"; ]', "group", "One request acts in one group"),
        ('[ Executable = "x"; Site = "Nowhere"; ]', "__all__", 'No site of the VO lhcb is called "Nowhere".'),
    ],
)
def test_a_wrong_jdl_is_reported_with_its_position(text: str, field: str, sentence: str, portal: Client) -> None:
    response = portal.post("/jobs/submit/jdl/", of_jdl(text))
    assert sentence in " ".join(errors_of(response)[field])
    assert not Job.objects.exists()


def test_warnings_are_shown_with_the_new_jobs(portal: Client) -> None:
    make_queue()
    response = portal.post(
        "/jobs/submit/jdl/", of_jdl('[ Executable = "x"; CPUTime = 500; Tags = {"gpu"}; ]'), follow=True
    )
    page = response.content.decode()
    assert "It waits because no queue that serves lhcb fits it: it requires the tag gpu" in page
    assert "message warning" in response.content.decode()


def test_an_invalid_request_id_is_refused(portal: Client) -> None:
    assert portal.post("/jobs/submit/jdl/", of_jdl(JDL, request_id="x")).status_code == 400
    assert not Job.objects.exists()


def test_the_same_attributes_may_come_as_cfg(portal: Client) -> None:
    text = "Executable = run\nCPUTime = 500\nJobName = of a cfg\n"
    assert portal.post("/jobs/submit/jdl/", of_jdl(text, syntax="cfg")).status_code == 302
    assert Job.objects.get().job_name == "of a cfg"


def test_a_wrong_cfg_is_reported_with_its_position(portal: Client) -> None:
    response = portal.post("/jobs/submit/jdl/", of_jdl("Executable = a\nCPUTme = 5", syntax="cfg"))
    assert response.status_code == 400
    assert "Line 2, column 1" in response.context["form"].errors["jdl"][0]


def test_requirements_that_no_queue_meets_are_warned_of_with_the_new_jobs(portal: Client) -> None:
    make_queue(name="small", parameters={"Memory": 2000})
    text = "Executable = a\nCPUTime = 500\nRequirements { Memory = 4000 }"
    response = portal.post("/jobs/submit/jdl/", of_jdl(text, syntax="cfg"), follow=True)
    warning = "It waits because no queue that serves lhcb provides what it requires: Memory = 4000."
    assert warning in response.content.decode()
    page = portal.get(f"/jobs/{Job.objects.get().pk}/").content.decode()
    assert warning in page
    assert "Memory holds back" in page
