"""Live pages: ETags that change when a job on the page does, and only then."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.views.decorators.http import require_safe

from tests import factories
from tests.factories import NOW
from wms.accounts.models import User
from wms.jobs.domain.actions import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.jobs.services.submission import submit
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.revisions import Revisions, jobs_seen_by, of_submission


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the changes at each request, and forget those of other tests."""
    monkeypatch.setattr(revisions, "MAX_AGE_S", 0.0)
    monkeypatch.setattr(revisions, "_revisions", Revisions())


def _submitted(owner: User) -> Job:
    result = submit(parse_submission({"executable": "a.sh"}), owner=owner, now=NOW)
    return Job.objects.get(submission=result.job_group_id)


def _hold(job: Job) -> None:
    control.apply_to_one(Action.HOLD, job.pk, by=job.owner, now=NOW)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("fresh")
def test_revisions_change_with_visible_jobs_only() -> None:
    sharing = factories.make_group(shares_jobs=True)
    alice, bob, stranger = (
        factories.make_user(groups=[sharing]),
        factories.make_user(groups=[sharing]),
        factories.make_user(),
    )
    operator = factories.make_user(operator=True)
    manager = factories.make_user()
    sharing.vo.managers.add(manager)
    job = _submitted(alice)
    other = _submitted(alice)
    everybody = (alice, bob, operator, manager, stranger)

    def seen() -> list[object]:
        return [jobs_seen_by(user) for user in everybody]

    before, of_its_own, of_other = seen(), of_submission(job.submission_id), of_submission(other.submission_id)
    assert seen() == before
    _hold(job)
    after = seen()
    assert [old != new for old, new in zip(before, after, strict=True)] == [True, True, True, True, False]
    assert seen() == after
    assert of_submission(job.submission_id) != of_its_own
    assert of_submission(other.submission_id) == of_other


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("fresh")
def test_after_too_many_changes_every_page_counts_as_changed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "MOST_KEYS", 3)
    alice, stranger = factories.make_user(groups=[factories.make_group()]), factories.make_user()
    job = _submitted(alice)
    before = jobs_seen_by(stranger)
    _hold(job)
    after = jobs_seen_by(stranger)
    assert after != before
    assert jobs_seen_by(stranger) == after


@pytest.mark.django_db
class TestLive:
    """The decorator."""

    calls = 0

    def _answer(self, *, revision: int, user: User | None = None, path: str = "/page/", etag: str = "") -> HttpResponse:
        @require_safe
        @live(lambda _request: (revision,))
        def view(_request: HttpRequest) -> HttpResponse:
            self.calls += 1
            return HttpResponse("page")

        headers = {"If-None-Match": etag} if etag else {}
        request = RequestFactory().get(path, headers=headers)
        request.user = user or User(pk=1)
        answer = view(request)
        assert isinstance(answer, HttpResponse)
        return answer

    def test_an_unchanged_page_is_304_without_its_view(self) -> None:
        etag = self._answer(revision=1)["ETag"]
        answer = self._answer(revision=1, etag=etag)
        assert (answer.status_code, answer.content, self.calls) == (304, b"", 1)
        # Compressed answers have weak ETags.
        assert self._answer(revision=1, etag=f"W/{etag}").status_code == 304

    def test_another_revision_user_or_address_is_another_page(self) -> None:
        etag = self._answer(revision=1)["ETag"]
        assert self._answer(revision=2, etag=etag).status_code == 200
        assert self._answer(revision=1, user=User(pk=2), etag=etag).status_code == 200
        assert self._answer(revision=1, path="/page/?q=a", etag=etag).status_code == 200
        assert self.calls == 4
