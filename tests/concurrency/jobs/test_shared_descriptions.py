"""Submissions at the same time that store the same descriptions (ADR 57)."""

from functools import partial
from random import Random

import pytest

from tests import factories
from tests.factories import NOW, submit
from tests.threads import at_once
from wms.accounts.models import User
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, StoredDescription
from wms.jobs.services import editing

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 15
KINDS = 30


def test_concurrent_equal_descriptions_are_stored_once() -> None:
    group = factories.make_group()
    owners = [factories.make_user(groups=[group]) for _ in range(4)]
    edited = factories.make_job(owner=owners[0], group=group, arguments="0 of 0")

    def submitting(owner: User, chance: Random, turn: int) -> None:
        kinds = list(range(KINDS))
        chance.shuffle(kinds)
        jobs = [{"executable": "run.sh", "arguments": f"{kind} of {turn}"} for kind in kinds]
        submit(parse_submission({"jobs": jobs}), owner=owner, now=NOW)

    def changing(turn: int) -> None:
        editing.edit(edited.pk, changes={"priority": turn % 10}, by=owners[0], now=NOW)

    chances = [Random(number) for number in range(len(owners))]
    for turn in range(ROUNDS):
        works = [partial(submitting, owner, chance, turn) for owner, chance in zip(owners, chances, strict=True)]
        at_once([*works, partial(changing, turn)])

    jobs = Job.objects.exclude(pk=edited.pk).select_related("stored_description")
    assert len(jobs) == ROUNDS * KINDS * len(owners)
    of_jobs = {job.description["arguments"]: job.stored_description_id for job in jobs}
    assert len(of_jobs) == len({job.stored_description_id for job in jobs}) == ROUNDS * KINDS
    assert StoredDescription.objects.filter(pk__in=of_jobs.values()).count() == ROUNDS * KINDS
