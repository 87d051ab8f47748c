"""Searches in the lists of large tables: by ids and by names of other rows, exactly."""

import pytest
from django.test import Client

from matching.models import Match
from pilots.models import Pilot
from taskqueues.models import TaskQueue
from tests.admin.conftest import RowsOfVO, changelist, make_rows_of_vo
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


def found(client: Client, model: type, term: object) -> set[object]:
    answer = client.get(changelist(model), {"q": str(term)})
    assert answer.status_code == 200
    return {row.pk for row in answer.context["cl"].result_list}


def test_a_row_is_found_by_its_id_and_by_names_of_others(operator: Client, mine: RowsOfVO) -> None:
    other = make_rows_of_vo("atlas")
    own = set(Job.objects.filter(owner=mine.member).values_list("pk", flat=True))
    assert found(operator, Job, mine.job.pk) == {mine.job.pk}
    assert found(operator, Job, mine.member.username) == own
    assert found(operator, TaskQueue, other.task_queue.pk) == {other.task_queue.pk}
    assert found(operator, TaskQueue, mine.member.username) == {mine.task_queue.pk}
    assert found(operator, Match, mine.job.pk) >= {mine.match.pk}
    assert found(operator, Match, other.pilot.pk) >= {other.match.pk}
    Pilot.objects.filter(pk=mine.pilot.pk).update(host_name="node1")
    assert found(operator, Pilot, "node1") == {mine.pilot.pk}


@pytest.mark.parametrize("term", ["nobody", "1.5", "²", str(2**70), "-1", "a b", "'"])
def test_what_cannot_be_one_finds_nothing(operator: Client, mine: RowsOfVO, term: str) -> None:
    for model in (Job, TaskQueue, Match, Pilot):
        assert found(operator, model, term) == set()


def test_leases_are_filtered_by_their_end(operator: Client, mine: RowsOfVO) -> None:
    def keys(**query: str) -> set[object]:
        return {row.pk for row in operator.get(changelist(Match), query).context["cl"].result_list}

    assert keys(end="open") == {mine.match.pk}
    Match.objects.filter(pk=mine.match.pk).update(ended_at=mine.match.expires_at, end_reason="expired")
    assert keys(end="expired") == {mine.match.pk}
    assert keys(end="open") == keys(end="finished") == set()
