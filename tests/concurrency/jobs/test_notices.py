"""Mail about ended submissions, by runs of the task that overlap."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from tests.factories import NOW, make_group, make_user, submit
from tests.mail import mail_server
from tests.threads import at_once
from wms.accounts.domain import MailWhen
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import notices

pytestmark = pytest.mark.django_db(transaction=True)

SUBMISSIONS = 20
RUNS = 4


def test_each_submission_gets_one_message_however_many_runs_send(settings: Settings) -> None:
    alice = make_user(groups=[make_group()])
    alice.mail_when, alice.email = MailWhen.ENDED, "alice@example.org"
    alice.save()
    request = parse_submission({"executable": "a.sh"})
    with mail_server() as server:
        settings.WMS_EMAIL_URL, settings.WMS_EMAIL_FROM = "smtp://127.0.0.1", "wms@example.org"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        for _ in range(SUBMISSIONS):
            submit(request, owner=alice, now=NOW)
        Job.objects.update(status="Done", exit_code=0, ended_at=NOW)
        later = NOW + timedelta(minutes=5)
        sent = at_once([lambda: notices.send_due(now=later) for _ in range(RUNS)])
    assert sum(sent) == SUBMISSIONS
    assert len({message["Message-ID"] for message in server.messages}) == len(server.messages) == SUBMISSIONS
