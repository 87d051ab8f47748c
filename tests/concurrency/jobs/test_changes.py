"""The stream of changes of jobs while many transactions write, some of which commit long after later ones."""

from random import Random
from threading import Event

import pytest
from django.db import transaction

from tests import factories
from tests.factories import NOW
from tests.pace import wait_for
from tests.threads import at_once
from wms.accounts.models import User
from wms.jobs.domain.actions import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.queries.changes import Position, changes, now
from wms.jobs.services import bulk, transitions
from wms.jobs.services.submission import submit

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 12


def _read_until_end(since: Position, *, by: User, at_most: int) -> tuple[list[int], Position]:
    lines: list[int] = []
    while True:
        part = changes(since, by=by, at_most=at_most)
        assert len(part.lines) <= at_most
        lines += [line.pk for line in part.lines]
        since = part.end
        if not part.is_partial:
            return lines, since


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reader_gets_every_change_once_and_in_order_whoever_commits_when(seed: int) -> None:
    group = factories.make_group()
    alice, operator = factories.make_user(groups=[group]), factories.make_user(operator=True)
    chance = Random(seed)
    begin, is_over, read = now(), Event(), list[int]()
    request = parse_submission({"jobs": [{"executable": "a.sh"}] * 5})

    def submitting() -> None:
        for _ in range(ROUNDS):
            submit(request, owner=alice, now=NOW)

    def acting() -> None:
        for number in range(ROUNDS):
            jobs = list(Job.objects.order_by("-pk").values_list("pk", flat=True)[: 3 + number % 3])
            bulk.act_on((Action.HOLD, Action.RELEASE, Action.KILL)[number % 3], jobs, by=alice, now=NOW)

    def dawdling() -> None:
        """Write a line first, and commit it after others have written and committed theirs."""
        for _ in range(ROUNDS):
            job = factories.make_job(owner=alice, group=group)
            with transaction.atomic():
                transitions.note_edit(job, fields=["priority"], source="test", now=NOW)
                before = JobHistory.objects.count()
                wait_for(lambda before=before: is_over.is_set() or JobHistory.objects.count() > before + 3)  # type: ignore[misc]

    def reading() -> None:
        since = begin
        while not is_over.is_set():
            lines, since = _read_until_end(since, by=operator, at_most=chance.randint(1, 50))
            read.extend(lines)
        lines, _ = _read_until_end(since, by=operator, at_most=7)
        read.extend(lines)

    def writing() -> None:
        try:
            at_once([submitting, submitting, acting, acting, dawdling])
        finally:
            is_over.set()

    at_once([writing, reading])
    expected = JobHistory.objects.order_by("transaction_number", "pk").values_list("pk", flat=True)
    assert read == list(expected)
    assert len(read) >= 2 * ROUNDS * 5


def test_a_change_is_not_shown_before_one_that_may_still_be_written_ahead_of_it() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    first, second = (factories.make_job(owner=alice, group=group) for _ in range(2))
    begin, is_written, may_commit = now(), Event(), Event()

    def early() -> None:
        with transaction.atomic():
            transitions.note_edit(first, fields=["priority"], source="early", now=NOW)
            is_written.set()
            assert may_commit.wait(60)

    def late() -> list[str]:
        assert is_written.wait(60)
        with transaction.atomic():
            transitions.note_edit(second, fields=["priority"], source="late", now=NOW)
        seen = [line.source for line in changes(begin, by=alice, at_most=10).lines]
        may_commit.set()
        return seen

    assert at_once([early, late]) == [None, []]
    assert [line.source for line in changes(begin, by=alice, at_most=10).lines] == ["early", "late"]
