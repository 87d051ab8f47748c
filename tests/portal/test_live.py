"""Live pages: ETags that change when something on the page does, and only then."""

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from threading import Event, Thread
from unittest.mock import Mock

import pytest
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.views.decorators.http import require_http_methods

from tests import factories
from tests.factories import NOW, submit
from tests.pace import wait_for
from wms.accounts import backends, sql
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.queries.changes import Position
from wms.jobs.services import control
from wms.kernel.fast.statements import query_directly, query_prepared
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.revisions import (
    Followed,
    KnownChanges,
    Revisions,
    StreamPlace,
    Subject,
    configuration,
    jobs_seen_by,
    of_submission,
    own_jobs,
    scope_of,
)


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


def _is_changed(followed: Followed, *, since: StreamPlace, of: Revisions | None = None) -> bool:
    return (of or revisions).reading().has_changed(followed.keys, since=since)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("fresh")
class TestRevisions:
    """The changes that a process knows."""

    def test_only_visible_jobs_change_the_revision_of_a_user(self) -> None:
        sharing = factories.make_group(shares_jobs=True)
        alice, bob, stranger = (
            factories.make_user(groups=[sharing]),
            factories.make_user(groups=[sharing]),
            factories.make_user(),
        )
        operator = factories.make_user(operator=True)
        manager = factories.make_user()
        sharing.vo.managers.add(manager)
        job, other = _submitted(alice), _submitted(alice)
        (of_its_own,), (of_other,) = of_submission(job.submission_id), of_submission(other.submission_id)
        followed = [
            *(jobs_seen_by(user)[0] for user in (alice, bob, operator, manager, stranger)),
            of_its_own,
            of_other,
            *own_jobs(bob),
            *own_jobs(alice),
        ]
        before = revisions.reading().place

        def changed(*, since: StreamPlace) -> list[bool]:
            return [_is_changed(each, since=since) for each in followed]

        assert not any(changed(since=before))
        _hold(job)
        assert changed(since=before) == [True, True, True, True, False, True, False, False, True]
        assert not any(changed(since=revisions.reading().place))

    def test_processes_answer_alike_also_one_that_has_just_started(self) -> None:
        alice, stranger = factories.make_user(groups=[factories.make_group()]), factories.make_user()
        job = _submitted(alice)
        (of_alice,), (of_stranger,) = jobs_seen_by(alice), jobs_seen_by(stranger)
        before = revisions.reading().place
        _hold(job)
        for process in (revisions._revisions, Revisions()):
            assert _is_changed(of_alice, since=before, of=process)
            assert not _is_changed(of_stranger, since=before, of=process)
            assert not _is_changed(of_alice, since=process.reading().place, of=process)

    def test_a_change_that_is_committed_late_is_not_missed(self) -> None:
        alice = factories.make_user(groups=[factories.make_group()])
        slow, quick = _submitted(alice), _submitted(alice)
        (of_slow,), (of_quick,) = of_submission(slow.submission_id), of_submission(quick.submission_id)
        written, commit = Event(), Event()

        def hold_slowly() -> None:
            with transaction.atomic():
                Job.objects.filter(pk=slow.pk).update(minor_status="x")
                slow.history.create(changed_at=NOW, status=slow.status, source="test")
                written.set()
                commit.wait()
            connection.close()

        thread = Thread(target=hold_slowly)
        thread.start()
        written.wait()
        _hold(quick)
        shown = revisions.reading().place
        assert not _is_changed(of_slow, since=shown)
        commit.set()
        thread.join()
        assert _is_changed(of_slow, since=shown)
        now = revisions.reading().place
        assert not _is_changed(of_slow, since=now)
        assert not _is_changed(of_quick, since=now)

    def test_a_page_older_than_the_kept_revisions_counts_as_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stranger = factories.make_user()
        (followed,) = jobs_seen_by(stranger)
        before = revisions.reading().place
        assert not _is_changed(followed, since=before)
        # The transactions of all databases of the server are counted, those of other workers too.
        monkeypatch.setattr(revisions, "MOST_TRANSACTIONS", 3)
        for _ in range(8):
            factories.make_user()
        assert _is_changed(followed, since=before)
        now = revisions.reading()
        assert not now.has_changed(followed.keys, since=now.place)
        # As after the database was restored from before.
        assert now.has_changed(followed.keys, since=StreamPlace(now.end.end + 4, frozenset()))

    def test_of_too_many_subjects_those_that_changed_last_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alice = factories.make_user(groups=[factories.make_group()])
        first, last = _submitted(alice), _submitted(alice)
        (of_first,), (of_last,) = of_submission(first.submission_id), of_submission(last.submission_id)
        before = revisions.reading().place
        _hold(first)
        between = revisions.reading().place
        _hold(last)
        monkeypatch.setattr(revisions, "MOST_KEYS", 3)
        assert _is_changed(of_last, since=between)
        # A transaction that still runs, also of another database, makes a place older.
        wait_for(lambda: not _is_changed(of_first, since=revisions.reading().place), 10)
        # Not known exactly any more, so it counts as changed.
        assert _is_changed(of_first, since=before)

    def test_what_changed_long_ago_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alice = factories.make_user(groups=[factories.make_group()])
        job = _submitted(alice)
        (of_job,) = of_submission(job.submission_id)
        before = revisions.reading().place
        _hold(job)
        changed = revisions.last_change(*own_jobs(alice))
        monkeypatch.setattr(revisions, "REMEMBERED_S", 0.0)
        wait_for(lambda: revisions.reading().begin > before.end, 10)
        assert not revisions.reading().changed_by
        assert of_job.keys[0] not in revisions.reading().last
        # Not known any more, so it counts as changed.
        assert _is_changed(of_job, since=before)
        assert revisions.last_change(*own_jobs(alice)) == changed

    def test_the_configuration_is_followed(self) -> None:
        (followed,) = configuration()
        site = factories.make_site()
        before = revisions.reading().place
        factories.make_user()
        assert not _is_changed(followed, since=before)
        site.state_reason = "x"
        site.save()
        assert _is_changed(followed, since=before)


def test_changes_of_an_hour_take_no_more_memory_than_those_of_ten_minutes() -> None:
    reading = KnownChanges(end=Position(seen="1:1:"), begin=0, read_at=0.0, marked_at=0.0)
    sizes = []
    for number in range(1, 7200):  # two a second, each of another submission
        subjects: set[Subject] = {("owner", number % 60), ("submission", number), ("all", 0)}
        revisions._note(reading, number, subjects)
        end = Position(seen=f"{number + 1}:{number + 1}:")
        reading = revisions._bounded(replace(reading, end=end, read_at=number / 2))
        sizes.append(len(reading.last) + len(reading.changed_by))
    assert max(sizes[1300:]) == max(sizes[:1300]) <= 2 * 2 * 601 + 61
    recent = StreamPlace(end=7000, running=frozenset())
    assert reading.has_changed([("submission", 7100)], since=recent)
    assert not reading.has_changed([("submission", 6900)], since=recent)
    assert reading.has_changed([("submission", 6900)], since=StreamPlace(end=100, running=frozenset()))


class TestSlowReadings:
    """Requests while the database answers slowly."""

    @pytest.fixture
    def slow(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, Event]]:
        """Yield events: a reading has begun; it may go on."""
        begun, go_on = Event(), Event()

        def read(_before: KnownChanges | None) -> KnownChanges:
            begun.set()
            go_on.wait()
            return KnownChanges(end=Position(seen="20:20:"), begin=1)

        monkeypatch.setattr(revisions, "_next", read)
        yield begun, go_on
        go_on.set()

    def _begin(self, process: Revisions, found: list[KnownChanges]) -> Thread:
        thread = Thread(target=lambda: found.append(process.reading()))
        thread.start()
        return thread

    def test_concurrent_requests_use_the_last_reading(
        self, slow: tuple[Event, Event], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(revisions, "MAX_AGE_S", 0.0)
        begun, go_on = slow
        process, found = Revisions(), list[KnownChanges]()
        last = process._reading = KnownChanges(end=Position(seen="10:10:"), begin=1)
        thread = self._begin(process, found)
        begun.wait()
        # Answered although the reading is still under way.
        assert process.reading() is last
        go_on.set()
        thread.join()
        assert [reading.end.end for reading in found] == [20]

    def test_requests_wait_if_the_last_reading_is_too_old(
        self, slow: tuple[Event, Event], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(revisions, "USED_MEANWHILE_S", 0.0)
        begun, go_on = slow
        process, found = Revisions(), list[KnownChanges]()
        process._reading = KnownChanges(end=Position(seen="10:10:"), begin=1, read_at=float("-inf"))
        threads = [self._begin(process, found)]
        begun.wait()
        threads.append(self._begin(process, found))
        assert not found
        go_on.set()
        for thread in threads:
            thread.join()
        # One reading for both.
        assert found[0] is found[1]

    def test_after_an_error_the_next_request_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        process = Revisions()

        def fail(_before: KnownChanges | None) -> KnownChanges:
            raise OSError

        with monkeypatch.context() as failing:
            failing.setattr(revisions, "_next", fail)
            with pytest.raises(OSError):  # noqa: PT011 - raised above
                process.reading()
        expected = KnownChanges(end=Position(seen="20:20:"), begin=1)
        monkeypatch.setattr(revisions, "_next", lambda _before: expected)
        assert process.reading() is expected


@pytest.mark.django_db
def test_the_scope_of_a_user_is_read_with_one_prepared_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    sharing, plain, managed = factories.make_group(shares_jobs=True), factories.make_group(), factories.make_group()
    user = factories.make_user(groups=[sharing, plain], manages=[managed.vo])
    asked = Mock(wraps=query_directly)
    monkeypatch.setattr(sql, "query_directly", asked)
    with CaptureQueriesContext(connection) as by_the_orm:
        scope = scope_of(user)
    assert (asked.call_count, len(by_the_orm)) == (1, 0)
    assert scope.groups == {(sharing.pk, sharing.vo_id), (plain.pk, plain.vo_id)}
    assert (list(scope.sharing), list(scope.managed_vos)) == ([sharing.pk], [managed.vo_id])
    assert not scope.invitations


@pytest.mark.django_db
class TestSession:
    """Session, user and scope of an open page."""

    def test_visible_vos_are_read_with_one_prepared_statement(
        self, portal: Client, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        etag = portal.get("/submissions/")["ETag"]
        asked, asked_otherwise = Mock(wraps=query_directly), Mock(wraps=query_prepared)
        monkeypatch.setattr(sql, "query_directly", asked)
        monkeypatch.setattr(sql, "query_prepared", asked_otherwise)
        response = portal.get("/submissions/", headers={"If-None-Match": etag})
        assert response.status_code == HTTPStatus.NOT_MODIFIED
        assert [call.args[0] for call in asked.call_args_list] == ["visit"]
        assert asked_otherwise.call_count == 0
        assert response.wsgi_request.user == alice

    def test_the_user_is_that_of_the_session_whoever_was_read_with_it(self, portal: Client, alice: User) -> None:
        key = portal.session.session_key
        assert key is not None
        for user_id in (factories.make_user().pk, alice.pk + 1_000_000):
            backends._users[key] = user_id
            assert portal.get("/submissions/").wsgi_request.user == alice

    def test_a_suspended_user_is_logged_out(self, portal: Client, alice: User) -> None:
        assert portal.get("/submissions/").status_code == HTTPStatus.OK
        User.objects.filter(pk=alice.pk).update(is_active=False)
        assert portal.get("/submissions/").status_code == HTTPStatus.FOUND

    def test_users_of_many_sessions_are_forgotten(self, portal: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backends, "_MOST_USERS", 1)
        monkeypatch.setattr(backends, "_users", {"another": 1})
        assert portal.get("/submissions/").status_code == HTTPStatus.OK
        assert list(backends._users) == [portal.session.session_key]


@pytest.mark.django_db
class TestLive:
    """The decorator."""

    calls = 0

    def _answer(
        self,
        *values: object,
        user: User | None = None,
        path: str = "/page/",
        etag: str = "",
        method: str = "GET",
    ) -> HttpResponse:
        @require_http_methods(["GET", "HEAD", "POST"])
        @live(lambda _request: values)
        def view(_request: HttpRequest) -> HttpResponse:
            self.calls += 1
            return HttpResponse("page")

        headers = {"If-None-Match": etag} if etag else {}
        request = RequestFactory().generic(method, path, headers=headers)
        request.user = user or User(pk=1)
        answer = view(request)
        assert isinstance(answer, HttpResponse)
        return answer

    def test_an_unchanged_page_is_304_without_its_view(self) -> None:
        etag = self._answer(1)["ETag"]
        answer = self._answer(1, etag=etag)
        assert (answer.status_code, answer.content, self.calls) == (304, b"", 1)
        # Compressed answers have weak ETags.
        assert self._answer(1, etag=f"W/{etag}").status_code == 304

    def test_another_revision_user_or_address_is_another_page(self) -> None:
        etag = self._answer(1)["ETag"]
        assert self._answer(2, etag=etag).status_code == 200
        assert self._answer(1, user=User(pk=2), etag=etag).status_code == 200
        assert self._answer(1, path="/page/?q=a", etag=etag).status_code == 200
        assert self.calls == 4

    def test_a_later_change_of_a_subject_is_another_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        followed = Followed(keys=(("owner", 1),))
        self._read(monkeypatch, end=10, last={})
        etag = self._answer(followed)["ETag"]
        assert etag.endswith('-10"')
        self._read(monkeypatch, end=20, last={("owner", 2): 15, ("owner", 1): 9})
        unchanged = self._answer(followed, etag=etag)
        # The client goes on from there.
        assert (unchanged.status_code, unchanged["ETag"][-4:]) == (304, '-20"')
        # A process that has read less does not set it back.
        self._read(monkeypatch, end=12, last={})
        assert self._answer(followed, etag=unchanged["ETag"])["ETag"] == unchanged["ETag"]
        self._read(monkeypatch, end=30, last={("owner", 1): 20})
        changed = self._answer(followed, etag=unchanged["ETag"])
        assert (changed.status_code, changed["ETag"][-4:]) == (200, '-30"')

    def test_changes_missing_in_an_older_index_are_shown_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read(monkeypatch, end=20, last={("vo", 1): 15})
        etag = self._answer(Followed(keys=(("vo", 1),), until=StreamPlace(14, frozenset())))["ETag"]
        assert (
            self._answer(Followed(keys=(("vo", 1),), until=StreamPlace(20, frozenset())), etag=etag).status_code == 200
        )

    def test_an_answer_to_post_is_not_fetched_again(self) -> None:
        assert "ETag" not in self._answer(1, method="POST")

    def test_an_invalid_etag_returns_the_page(self) -> None:
        for etag in ('"x"', "*", '"' + 32 * "0" + "-" + 30 * "9" + '"', '"' + 32 * "0" + '-1"'):
            assert self._answer(1, etag=etag).status_code == 200

    def _read(self, monkeypatch: pytest.MonkeyPatch, *, end: int, last: dict[Subject, int]) -> None:
        process = Revisions()
        process._reading = KnownChanges(end=Position(seen=f"{end}:{end}:"), begin=1, last=last, read_at=float("inf"))
        monkeypatch.setattr(revisions, "_revisions", process)
