"""The stream of changes of jobs while many transactions write, some of which commit long after later ones."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Any, cast

import pytest
from django.db import transaction

from tests import factories
from tests.factories import NOW, submit
from tests.threads import at_once
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.queries.changes import Position, changes, now
from wms.jobs.services import bulk, transitions

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


def _commit_after_others(job: Job) -> None:
    """Write a line first, and commit it after others have written and committed theirs."""
    with transaction.atomic():
        _edit(job)
        before, deadline = JobHistory.objects.count(), monotonic() + 1
        while JobHistory.objects.count() <= before + 3 and monotonic() < deadline:
            sleep(0.01)


def _edit(job: Job) -> None:
    """Add a line to the history of the job, which is locked as for each change."""
    with transaction.atomic():
        locked = Job.objects.select_for_update().get(pk=job.pk)
        transitions.note_edit(locked, fields=["priority"], source="test", now=NOW)


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
        for _ in range(3):
            _commit_after_others(factories.make_job(owner=alice, group=group))

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
    assert len(read) >= 2 * ROUNDS * 5
    assert sorted(read) == sorted(JobHistory.objects.values_list("pk", flat=True))
    assert all(lines == sorted(lines) for lines in _by_job(read))


def _by_job(lines: Sequence[int]) -> Iterable[Sequence[int]]:
    job_of = dict(JobHistory.objects.values_list("pk", "job"))
    by_job = defaultdict[int, list[int]](list)
    for line in lines:
        by_job[job_of[line]].append(line)
    return by_job.values()


def test_a_change_that_is_committed_late_comes_after_those_that_were_read_and_hides_none() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    first, second = (factories.make_job(owner=alice, group=group) for _ in range(2))
    begin, is_written, may_commit = now(), Event(), Event()

    def early() -> None:
        with transaction.atomic():
            transitions.note_edit(first, fields=["priority"], source="early", now=NOW)
            is_written.set()
            assert may_commit.wait(60)

    def late() -> tuple[Position, list[str]]:
        assert is_written.wait(60)
        with transaction.atomic():
            transitions.note_edit(second, fields=["priority"], source="late", now=NOW)
        part = changes(begin, by=alice, at_most=10)
        may_commit.set()
        return part.end, [line.source for line in part.lines]

    _, (end, seen) = at_once(cast("list[Callable[[], Any]]", [early, late]))
    assert seen == ["late"]
    assert [line.source for line in changes(end, by=alice, at_most=10).lines] == ["early"]


def test_a_long_part_is_continued_by_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.jobs.queries.changes._WINDOW", 3)
    group = factories.make_group()
    alice, bob = factories.make_user(groups=[group]), factories.make_user(groups=[group])
    begin = now()
    for owner, count in ((alice, 2), (bob, 100), (alice, 2)):
        job = factories.make_job(owner=owner, group=group)
        for _ in range(count):
            _edit(job)
    parts, since = list[int](), begin
    while True:
        part = changes(since, by=alice, at_most=1)
        parts.append(len(part.lines))
        since = part.end
        if not part.is_partial:
            break
    assert sum(parts) == 4
    # Lines of others are passed over in bounded steps.
    assert 0 in parts
