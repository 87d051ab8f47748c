"""Mail about submissions that have ended, through a real mail server."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from tests.factories import NOW, make_group, make_user, submit
from tests.mail import MailServer, mail_server
from wms.accounts.domain import MailWhen
from wms.accounts.models import Group, User
from wms.jobs import tasks
from wms.jobs.domain.notices import MAX_OPEN_NOTICES
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, Submission, SubmissionNotice
from wms.jobs.services import counting, notices

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(minutes=5)


@pytest.fixture
def server(settings: Settings) -> Iterator[MailServer]:
    with mail_server() as running:
        settings.WMS_EMAIL_URL = f"smtp://127.0.0.1:{running.port}"
        settings.WMS_EMAIL_FROM = "wms@example.org"
        settings.WMS_SERVER_URL = "https://wms.example.org/"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", running.port
        yield running


@pytest.fixture
def group() -> Group:
    return make_group()


def person(group: Group, *, when: MailWhen = MailWhen.ENDED, email: str = "alice@example.org") -> User:
    user = make_user(groups=[group])
    user.mail_when, user.email = when, email
    user.save()
    return user


def submitted(owner: User, *, jobs: int = 3, name: str = "scan-%n") -> Submission:
    request = parse_submission({"jobs": [{"executable": "a.sh", "job_name": name} for _ in range(jobs)]})
    result = submit(request, owner=owner, now=NOW)
    return Submission.objects.get(pk=result.job_group_id)


def end(submission: Submission, outcomes: Sequence[tuple[str, int | None]]) -> None:
    """End the first jobs of the submission with these statuses and exit codes."""
    jobs = Job.objects.filter(submission=submission).order_by("pk")
    for job, (status, exit_code) in zip(jobs, outcomes, strict=False):
        Job.objects.filter(pk=job.pk).update(status=status, exit_code=exit_code, ended_at=NOW, status_changed_at=NOW)


DONE = ("Done", 0)


@pytest.mark.parametrize("settle", [counting.add_changes, lambda: None], ids=["added", "pending"])
def test_the_owner_gets_one_message_when_the_last_job_has_ended(
    server: MailServer, group: Group, settle: Callable[[], object]
) -> None:
    submission = submitted(person(group))
    end(submission, [DONE, ("Failed", 2)])
    assert notices.send_due(now=LATER) == 0
    end(submission, [DONE, ("Failed", 2), ("Failed", None)])
    settle()
    assert notices.send_due(now=LATER + notices.LOOK_EVERY) == 1
    assert notices.send_due(now=LATER + timedelta(hours=1)) == 0
    (message,) = server.messages
    assert server.addresses == ["alice@example.org"]
    assert message["To"] == "alice@example.org"
    assert message["From"] == "wms@example.org"
    assert message["Subject"].endswith("2 of 3 jobs failed")
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "text/plain"
    text = message.get_content().replace("\r\n", "\n")
    assert "Done: 1 job\nFailed: 2 jobs\n" in text
    assert "  exit code 2: 1 job\n  no exit code: 1 job\n" in text
    assert f"https://wms.example.org/submissions/{submission.pk}/" in text
    assert not SubmissionNotice.objects.exists()


def test_a_job_rescheduled_after_the_message_sends_no_second_one(server: MailServer, group: Group) -> None:
    submission = submitted(person(group))
    end(submission, [("Failed", 2)] * 3)
    assert notices.send_due(now=LATER) == 1
    Job.objects.filter(submission=submission).update(status="Waiting", ended_at=None)
    end(submission, [DONE] * 3)
    assert notices.send_due(now=LATER + timedelta(hours=2)) == 0
    assert len(server.messages) == 1


@pytest.mark.parametrize(
    ("when", "outcomes", "sent"),
    [
        (MailWhen.NEVER, [("Failed", 2)] * 3, 0),
        (MailWhen.FAILED, [DONE] * 3, 0),
        (MailWhen.FAILED, [DONE, DONE, ("Failed", 2)], 1),
        (MailWhen.ENDED, [DONE, DONE, ("Killed", None)], 1),
    ],
)
def test_users_choose_when_they_get_mail(
    server: MailServer, group: Group, when: MailWhen, outcomes: list[tuple[str, int | None]], sent: int
) -> None:
    submission = submitted(person(group, when=when))
    end(submission, outcomes)
    assert (notices.send_due(now=LATER), len(server.messages)) == (sent, sent)
    assert not SubmissionNotice.objects.exists()


@pytest.mark.parametrize(
    "change",
    [{"mail_when": MailWhen.NEVER}, {"is_active": False}, {"email": ""}, {"email": "a@b.org\nBcc: all@example.org"}],
    ids=["mail is off", "suspended", "no address", "no valid address"],
)
def test_the_mail_setting_at_the_end_of_the_submission_decides(
    server: MailServer, group: Group, change: dict[str, object]
) -> None:
    owner = person(group)
    submission = submitted(owner)
    User.objects.filter(pk=owner.pk).update(**change)
    end(submission, [DONE] * 3)
    assert (notices.send_due(now=LATER), server.messages) == (0, [])
    assert not SubmissionNotice.objects.exists()


@pytest.mark.parametrize("email", ["", "alice", "a@b.org\nBcc: all@example.org"])
def test_submissions_without_a_valid_address_are_not_marked(server: MailServer, group: Group, email: str) -> None:
    submitted(person(group, email=email))
    assert not SubmissionNotice.objects.exists()


def test_submissions_without_wanted_mail_need_no_statement(
    server: MailServer, group: Group, settings: Settings
) -> None:
    def statements(owner: User) -> int:
        submitted(owner)
        with CaptureQueriesContext(
            connection,
        ) as captured:
            submitted(owner)
        return len(captured)

    never, always = statements(person(group, when=MailWhen.NEVER)), statements(person(group))
    assert always == never + 2
    settings.WMS_EMAIL_URL = ""
    assert statements(person(group)) == never


def test_the_number_of_messages_to_one_user_is_bounded(server: MailServer, group: Group) -> None:
    owner, other = person(group), person(group, email="bob@example.org")
    for _ in range(MAX_OPEN_NOTICES + 3):
        submitted(owner, jobs=1)
    submitted(other, jobs=1)
    assert SubmissionNotice.objects.filter(owner=owner).count() == MAX_OPEN_NOTICES
    assert SubmissionNotice.objects.filter(owner=other).count() == 1


def test_a_name_cannot_add_a_header(server: MailServer, group: Group) -> None:
    submission = submitted(person(group), jobs=1)
    Job.objects.filter(submission=submission).update(job_group="x\r\nBcc: all@example.org")
    submission.content.job_group = "x\r\nBcc: all@example.org"
    submission.content.save()
    end(submission, [DONE])
    assert notices.send_due(now=LATER) == 1
    assert server.addresses == ["alice@example.org"]
    assert server.messages[0]["Bcc"] is None
    assert server.messages[0]["Subject"] == "x Bcc: all@example.org: 1 of 1 job done"


def test_messages_wait_while_the_mail_server_is_down(server: MailServer, group: Group, settings: Settings) -> None:
    submission = submitted(person(group))
    end(submission, [DONE] * 3)
    settings.EMAIL_PORT = 1
    for minutes in range(10):
        assert notices.send_due(now=LATER + timedelta(minutes=minutes)) == 0
    settings.EMAIL_PORT = server.port
    assert notices.send_due(now=LATER + timedelta(minutes=10)) == 1


@pytest.mark.parametrize("refuses", ["answer_to_address", "answer_to_message"])
def test_a_refused_message_is_sent_again_some_times(server: MailServer, group: Group, refuses: str) -> None:
    refused, accepted = submitted(person(group)), submitted(person(group, email="bob@example.org"))
    end(refused, [DONE] * 3)
    setattr(server, refuses, "451 Try later")
    now = LATER
    assert notices.send_due(now=now) == 0
    assert notices.send_due(now=now + notices.LOOK_EVERY) == 0
    assert SubmissionNotice.objects.get(pk=refused.pk).attempts == 1
    end(accepted, [DONE] * 3)
    for _ in range(notices.MAX_ATTEMPTS - 1):
        now += notices.RETRY_AFTER
        notices.send_due(now=now)
    setattr(server, refuses, "250 OK")
    notices.send_due(now=now + notices.RETRY_AFTER)
    assert server.addresses == ["bob@example.org"]
    assert not SubmissionNotice.objects.exists()


def test_a_repeated_message_has_the_same_id(server: MailServer, group: Group) -> None:
    submission = submitted(person(group))
    end(submission, [DONE] * 3)
    notices.send_due(now=LATER)
    assert server.messages[0]["Message-ID"] == f"<submission-{submission.pk}@wms.example.org>"


def test_a_run_checks_a_bounded_number_of_submissions_oldest_first(
    server: MailServer, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "AT_ONCE", 2)
    owner = person(group)
    submissions = [submitted(owner, jobs=1) for _ in range(3)]
    last = SubmissionNotice.objects.order_by("due_at", "pk").last()
    assert last is not None
    end(Submission.objects.get(pk=last.pk), [DONE])
    assert notices.send_due(now=LATER) == 0
    assert notices.send_due(now=LATER) == 1
    assert SubmissionNotice.objects.count() == len(submissions) - 1


def test_the_task_sends_due_messages_if_a_mail_server_is_set(
    server: MailServer, group: Group, settings: Settings
) -> None:
    end(submitted(person(group)), [DONE] * 3)
    url, settings.WMS_EMAIL_URL = settings.WMS_EMAIL_URL, ""
    tasks.send_notices()
    assert server.messages == []
    settings.WMS_EMAIL_URL = url
    tasks.send_notices()
    assert len(server.messages) == 1
