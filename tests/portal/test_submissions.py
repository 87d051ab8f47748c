"""Submissions: their list, the page of one, actions on its jobs, and the archive of their outputs."""

import hashlib
import io
import json
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.files.storage import storages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from tests.factories import NOW, make_group, make_job, make_queue, make_site, make_submission, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Sandbox, Submission
from wms.jobs.services import output_archives
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation.submission import MOST_PLACES

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def directory(settings: Settings, tmp_path: Path) -> Path:
    sandboxes = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": sandboxes}
    return tmp_path


@pytest.fixture
def submission(alice: User, group: Group) -> Submission:
    return make_submission(owner=alice, group=group)


def address_of(submission: Submission) -> str:
    return f"/submissions/{submission.pk}/"


def page_of(portal: Client, submission: Submission) -> Any:
    response = portal.get(address_of(submission))
    assert response.status_code == 200
    return response.context["submission"]


def queries_of(portal: Client, address: str) -> int:
    portal.get(address)  # from now on, no change is read
    with CaptureQueriesContext(connection) as captured:
        assert portal.get(address).status_code == 200
    return len(captured)


# ---- the list --------------------------------------------------------------------------------------------------------


def test_without_submissions_the_page_says_what_to_do(portal: Client) -> None:
    page = portal.get("/submissions/").content.decode()
    assert "You have submitted nothing yet." in page
    assert "Submit the first job" in page


def test_the_list_has_the_users_own_submissions_newest_first_with_their_jobs(
    portal: Client, alice: User, group: Group
) -> None:
    older, newer = make_submission(owner=alice, group=group), make_submission(owner=alice, group=group)
    for status in (JobStatus.DONE, JobStatus.DONE, JobStatus.FAILED, JobStatus.DELETED):
        make_job(submission=older, status=status, job_name="scan-1", job_group="mc")
    make_job(submission=newer, job_name="fit")
    make_job(group=group)
    rows = portal.get("/submissions/").context["rows"]
    assert [(row.title, row.jobs) for row in rows] == [("fit", 1), ("mc", 3)]
    assert [(segment.label, segment.count) for segment in rows[1].segments] == [("done", 2), ("failed", 1)]
    assert [row.url for row in rows] == [address_of(newer), address_of(older)]


def test_pages_reach_all_submissions_forward_and_back(portal: Client, alice: User, group: Group) -> None:
    names = [f"job{number:03}" for number in range(2 * ROWS_PER_PAGE + 3)]
    for name in names:
        make_job(owner=alice, group=group, status=JobStatus.DONE, job_name=name)
    pages, address = [], "/submissions/"
    while address:
        response = portal.get(address)
        pages.append([row.title for row in response.context["rows"]])
        older = response.context["page"].older
        address = f"/submissions/?{older}" if older else ""
    assert [len(page) for page in pages] == [ROWS_PER_PAGE, ROWS_PER_PAGE, 3]
    assert [name for page in pages for name in page] == names[::-1]
    back = portal.get(f"/submissions/?{response.context['page'].newer}")
    assert [row.title for row in back.context["rows"]] == pages[1]


def test_thirty_submissions_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group)
    one = queries_of(portal, "/submissions/")
    for _ in range(29):
        make_job(owner=alice, group=group)
    assert queries_of(portal, "/submissions/") == one


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_counts_by_status_with_links_to_the_jobs(portal: Client, submission: Submission) -> None:
    for status in (JobStatus.DONE, JobStatus.DONE, JobStatus.FAILED, JobStatus.WAITING):
        make_job(submission=submission, status=status)
    page = page_of(portal, submission)
    assert [(chip.status, chip.jobs) for chip in page.chips] == [("Waiting", 1), ("Failed", 1), ("Done", 2)]
    for chip in page.chips:
        assert [row.status for row in portal.get(chip.url).context["rows"]] == [chip.status] * chip.jobs


def test_the_page_says_where_jobs_ran(portal: Client, submission: Submission) -> None:
    cern, pic = make_site(name="CERN"), make_site(name="PIC")
    for status, site in (
        (JobStatus.DONE, cern),
        (JobStatus.FAILED, pic),
        (JobStatus.DONE, pic),
        (JobStatus.RUNNING, pic),
        (JobStatus.WAITING, None),
    ):
        make_job(submission=submission, status=status, site=site)
    rows = page_of(portal, submission).places
    assert [(row.site, row.done, row.failed, row.running) for row in rows] == [("PIC", 1, 1, 1), ("CERN", 1, 0, 0)]


def test_of_many_sites_those_with_most_jobs_are_shown_and_the_others_folded(
    portal: Client, submission: Submission
) -> None:
    largest = make_site(name="PIC")
    for _ in range(2):
        make_job(submission=submission, status=JobStatus.DONE, site=largest)
    for number in range(MOST_PLACES):
        make_job(submission=submission, status=JobStatus.DONE, site=make_site(name=f"Site{number:02}"))
    shown = page_of(portal, submission)
    assert [row.site for row in shown.places] == ["PIC", *(f"Site{number:02}" for number in range(MOST_PLACES - 1))]
    assert [row.site for row in shown.further_places] == [f"Site{MOST_PLACES - 1:02}"]
    assert "<summary>1 more site</summary>" in portal.get(address_of(submission)).content.decode()


def test_the_page_shows_the_time_left_by_the_payloads_of_the_last_hour(portal: Client, submission: Submission) -> None:
    now = timezone.now()
    # How long they have waited does not matter.
    Submission.objects.update(submitted_at=now - timedelta(days=1))
    ended = [make_job(submission=submission, status=JobStatus.DONE).pk for _ in range(6)]
    for status in (JobStatus.RUNNING, JobStatus.WAITING, JobStatus.WAITING):
        make_job(submission=submission, status=status)
    assert "No estimate yet of the time that the other 3 take." in portal.get(address_of(submission)).content.decode()
    Job.objects.filter(pk__in=ended).update(started_at=now - timedelta(minutes=25), ended_at=now - timedelta(minutes=5))
    Job.objects.filter(status=JobStatus.RUNNING).update(started_at=now - timedelta(minutes=5))
    page = portal.get(address_of(submission)).content.decode()
    assert "<b>6</b> jobs ended in the last hour." in page
    # Fifteen minutes of the one that runs, then two of twenty, one after another: 55.
    assert "The other 3 take <b>35 min to 1 h 40 min</b>." in page


def test_failures_are_grouped_with_links_to_them(portal: Client, submission: Submission) -> None:
    jobs = [make_job(submission=submission, status=JobStatus.FAILED) for _ in range(3)]
    for job, reason in zip(jobs, ("Cannot open /data/1", "Cannot open /data/2", "Killed by the system"), strict=True):
        Job.objects.filter(pk=job.pk).update(minor_status=reason)
    make_job(owner=submission.owner, group=submission.group, status=JobStatus.FAILED)
    groups = page_of(portal, submission).failures.groups
    assert [(group.jobs, group.title) for group in groups] == [(2, "Cannot open /data/2"), (1, "Killed by the system")]
    listed = portal.get(f"/jobs/?{groups[0].query}").context["rows"]
    assert {row.id for row in listed} == {jobs[0].pk, jobs[1].pk}


@pytest.mark.parametrize(
    ("who", "status"), [("owner", 200), ("group_mate", 200), ("stranger", 404), ("manager", 200), ("operator", 200)]
)
def test_access_rights_to_a_submission(who: str, status: int, vo: VO, client_of: ClientOf) -> None:
    sharing = make_group(vo=vo, shares_jobs=True)
    job = make_job(group=sharing, status=JobStatus.FAILED)
    user = {
        "owner": lambda: job.owner,
        "group_mate": lambda: make_user(groups=[sharing]),
        "stranger": lambda: make_user(groups=[make_group(vo=vo)]),
        "manager": lambda: make_user(manages=[vo]),
        "operator": lambda: make_user(operator=True),
    }[who]()
    browser, address = client_of(user), address_of(job.submission)
    assert browser.get(address).status_code == status
    assert browser.get(f"{address}outputs.tar.gz").status_code == (302 if status == 200 else 404)


def test_a_submission_that_does_not_exist_is_not_found(portal: Client) -> None:
    assert portal.get(f"/submissions/{UUID(int=7)}/").status_code == 404
    assert portal.get("/submissions/seven/").status_code == 404


def test_texts_of_users_are_shown_as_text(portal: Client, submission: Submission) -> None:
    make_job(submission=submission, job_group="<script>alert(1)</script>", job_name="<b>x</b>")
    for address in (address_of(submission), "/submissions/", "/"):
        page = portal.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_submission_of_thirty_sites_costs_no_more_queries_than_of_one(portal: Client, submission: Submission) -> None:
    def new_jobs() -> None:
        queue = make_queue()
        for status in (JobStatus.FAILED, JobStatus.DONE):
            make_job(submission=submission, status=status, site=queue.ce.site, queue=queue)

    new_jobs()
    one = queries_of(portal, address_of(submission))
    for _ in range(29):
        new_jobs()
    assert queries_of(portal, address_of(submission)) == one


def test_an_open_page_is_answered_with_304_until_a_job_changes(portal: Client, submission: Submission) -> None:
    make_job(submission=submission)
    for address in (address_of(submission), "/submissions/", "/"):
        etag = portal.get(address)["ETag"]
        assert portal.get(address, headers={"If-None-Match": etag}).status_code == 304


# ---- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("reschedule", JobStatus.FAILED, JobStatus.WAITING),
        ("kill", JobStatus.WAITING, JobStatus.KILLED),
        ("hold", JobStatus.WAITING, JobStatus.HELD),
        ("release", JobStatus.HELD, JobStatus.WAITING),
    ],
)
def test_a_button_asks_for_confirmation_and_changes_these_jobs_only(
    action: str, before: JobStatus, after: JobStatus, portal: Client, submission: Submission
) -> None:
    jobs = [make_job(submission=submission, status=before) for _ in range(2)]
    done = make_job(submission=submission, status=JobStatus.DONE)
    other = make_job(owner=submission.owner, group=submission.group, status=before)
    (button,) = (button for button in page_of(portal, submission).buttons if button.action == action)
    address, asked = f"/jobs/actions/?{button.query}", {"action": action, "scope": "all", "q": button.text}
    question = portal.post(address, asked)
    assert question.context["question"].possible_count == button.jobs == 2
    assert set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("status", flat=True)) == {before}
    answer = portal.post(address, {**asked, "confirmed": "1", "shown": "2"}, follow=True)
    assert "2 jobs " in answer.content.decode()
    assert {row.id for row in answer.context["rows"]} == {jobs[0].pk, jobs[1].pk, done.pk}
    statuses = dict(Job.objects.values_list("pk", "status"))
    assert [statuses[job.pk] for job in jobs] == [after, after]
    assert (statuses[done.pk], statuses[other.pk]) == (JobStatus.DONE, before)


def test_buttons_are_shown_for_actions_with_possible_jobs(portal: Client, submission: Submission) -> None:
    make_job(submission=submission, status=JobStatus.DONE)
    assert page_of(portal, submission).buttons == []
    make_job(submission=submission, status=JobStatus.FAILED)
    make_job(submission=submission)
    buttons = page_of(portal, submission).buttons
    assert [(button.action, button.jobs) for button in buttons] == [("reschedule", 1), ("hold", 1), ("kill", 1)]


def test_the_list_of_its_jobs_is_there_as_a_file(portal: Client, submission: Submission) -> None:
    job = make_job(submission=submission, status=JobStatus.DONE)
    make_job(owner=submission.owner, group=submission.group)
    page = page_of(portal, submission)
    written: Any = portal.get(page.json_url)
    assert [row["id"] for row in json.loads(b"".join(written.streaming_content))] == [job.pk]
    written = portal.get(page.csv_url)
    assert len(b"".join(written.streaming_content).splitlines()) == 2


# ---- outputs ---------------------------------------------------------------------------------------------------------


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def member(name: str, **others: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for attribute, value in others.items():
        setattr(info, attribute, value)
    return info


def give_output(job: Job, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    storages["sandboxes"].save(f"{digest[:2]}/{digest[2:]}", io.BytesIO(content))
    job.output_sandbox = Sandbox.objects.create(digest=digest, size_bytes=len(content), is_archive=True, created_at=NOW)
    job.save()


def archive_of(portal: Client, submission: Submission) -> tarfile.TarFile:
    response: Any = portal.get(f"{address_of(submission)}outputs.tar.gz")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/gzip"
    assert response["Content-Disposition"].startswith('attachment; filename="outputs-')
    return tarfile.open(fileobj=io.BytesIO(b"".join(response.streaming_content)), mode="r:gz")


def test_all_outputs_come_as_one_archive_with_a_directory_for_each_job(
    portal: Client, submission: Submission, tmp_path: Path
) -> None:
    first, second, empty = (make_job(submission=submission, status=JobStatus.DONE) for _ in range(3))
    large = bytes(range(256)) * 5000
    give_output(
        first,
        packed(
            (member("./std.out", mode=0o600, uname="alice"), b"hello\n"),
            (member("results", type=tarfile.DIRTYPE, mode=0o755), b""),
            (member("results/histogram.root"), large),
            (member("results/link", type=tarfile.SYMTYPE, linkname="../std.out"), b""),
            (member("same", type=tarfile.LNKTYPE, linkname="./std.out"), b""),
        ),
    )
    give_output(second, packed((member("std.out"), b"")))
    give_output(empty, packed())
    make_job(submission=submission, status=JobStatus.DONE)
    with archive_of(portal, submission) as archive:
        top = f"job-{first.pk}"
        assert archive.getnames() == [
            top,
            f"{top}/std.out",
            f"{top}/results",
            f"{top}/results/histogram.root",
            f"{top}/results/link",
            f"{top}/same",
            f"job-{second.pk}",
            f"job-{second.pk}/std.out",
            f"job-{empty.pk}",
        ]
        assert {info.uname for info in archive} == {""}
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in the first versions of Python 3.11
        archive.extractall(tmp_path / "unpacked")
    unpacked = tmp_path / "unpacked" / top
    assert (unpacked / "results/histogram.root").read_bytes() == large
    assert (unpacked / "results/link").read_text() == (unpacked / "same").read_text() == "hello\n"


def test_outputs_that_cannot_be_read_are_named_in_the_archive(
    portal: Client, submission: Submission, directory: Path
) -> None:
    whole, gone, broken = (make_job(submission=submission, status=JobStatus.DONE) for _ in range(3))
    give_output(whole, packed((member("std.out"), b"1")))
    give_output(gone, packed((member("std.out"), b"2")))
    noise = hashlib.shake_256(b"").digest(500_000)
    give_output(broken, packed((member("std.out"), noise)))
    assert gone.output_sandbox
    assert broken.output_sandbox
    digest = gone.output_sandbox.digest
    (directory / digest[:2] / digest[2:]).unlink()
    digest = broken.output_sandbox.digest
    file = directory / digest[:2] / digest[2:]
    file.write_bytes(file.read_bytes()[:300_000])
    with archive_of(portal, submission) as archive:
        listing = archive.extractfile(output_archives.FLAWS_NAME)
        assert listing is not None
        assert listing.read().decode().split("\n")[1:-1] == [str(gone.pk), str(broken.pk)]
        damaged = archive.extractfile(f"job-{broken.pk}/std.out")
        assert damaged is not None
        assert len(damaged.read()) == len(noise)
        kept = archive.extractfile(f"job-{whole.pk}/std.out")
        assert kept is not None
        assert kept.read() == b"1"


def test_the_archive_is_made_in_small_pieces(portal: Client, submission: Submission) -> None:
    job = make_job(submission=submission, status=JobStatus.DONE)
    give_output(job, packed((member("noise"), hashlib.shake_256(b"").digest(4_000_000))))
    response: Any = portal.get(f"{address_of(submission)}outputs.tar.gz")
    sizes = [len(piece) for piece in response.streaming_content]
    assert len(sizes) > 10
    assert max(sizes) < 2 * output_archives.PIECE_BYTES


def test_without_outputs_there_is_no_archive_and_no_link_to_one(portal: Client, submission: Submission) -> None:
    job = make_job(submission=submission)
    link = f"{address_of(submission)}outputs.tar.gz"
    assert link not in portal.get(address_of(submission)).content.decode()
    answer = portal.get(link, follow=True)
    assert answer.redirect_chain == [(address_of(submission), 302)]
    assert "there is nothing to download" in answer.content.decode()
    give_output(job, packed())
    assert link in portal.get(address_of(submission)).content.decode()


# ---- after the submission --------------------------------------------------------------------------------------------


def test_warnings_of_the_submission_stay_on_its_page(portal: Client) -> None:
    make_queue()
    jdl = '[ Executable = "run"; CPUTime = 500; Tags = {"gpu"}; ]'
    form = {"request_id": str(UUID(int=9)), "group": "lhcb_user", "syntax": "jdl", "jdl": jdl}
    first = portal.post("/jobs/submit/jdl/", form, follow=True)
    job = Job.objects.get()
    assert first.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
    assert "1 job submitted." in first.content.decode()
    assert "requires the tag gpu" in first.content.decode()
    again = portal.get(address_of(job.submission))
    (warning,) = again.context["submission"].warnings
    assert "requires the tag gpu" in warning
    assert "1 job submitted." not in again.content.decode()


def test_an_action_leads_back_to_the_submission_whose_button_was_pressed(
    portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.FAILED)
    button = portal.get(f"/submissions/{job.submission_id}/").context["submission"].buttons[0]
    sent = {"action": button.action, "scope": "all", "q": button.text, "submission": str(job.submission_id)}
    asked = portal.post(f"/jobs/actions/?{button.query}", sent)
    assert f'name="submission" value="{job.submission_id}"' in asked.content.decode()
    done = portal.post(f"/jobs/actions/?{button.query}", {**sent, "confirmed": "1", "shown": "1"}, follow=True)
    assert done.redirect_chain == [(f"/submissions/{job.submission_id}/", 302)]
    elsewhere = portal.post(f"/jobs/actions/?{button.query}", {**sent, "submission": "https://example.org/"})
    assert elsewhere.status_code == 200  # the question again, with no way to that address
    assert "example.org" not in elsewhere.content.decode()
