"""Platforms that nodes report: their lifetime and their greatest number (ADR 28)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from resources.models import Queue, ReportedPlatform
from resources.queries.nodes import REPORT_HOLDS_FOR, reported_platforms
from resources.services.nodes import MOST_PLATFORMS, note_platform
from tests import factories

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def note(queue: Queue, platform: str, *, now: datetime = NOW) -> None:
    with transaction.atomic():
        note_platform(queue, platform=platform, host_name="wn1", now=now)


def test_an_outdated_platform_report_is_removed_with_the_next() -> None:
    queue, other = factories.make_queue(), factories.make_queue()
    note(queue, "el8")
    note(other, "el8")
    later = NOW + REPORT_HOLDS_FOR
    note(queue, "el9", now=later)
    assert set(ReportedPlatform.objects.values_list("queue", "platform")) == {(queue.pk, "el9"), (other.pk, "el8")}
    assert reported_platforms(now=later) == {queue.pk: ("el9",)}


def test_nodes_that_invent_platforms_do_not_fill_the_table() -> None:
    queue = factories.make_queue()
    for number in range(MOST_PLATFORMS + 5):
        note(queue, f"invented{number}", now=NOW + timedelta(seconds=number))
    assert ReportedPlatform.objects.filter(queue=queue).count() == MOST_PLATFORMS
    # What is known is still kept up to date.
    note(queue, "invented0", now=NOW + timedelta(hours=1))
    assert ReportedPlatform.objects.get(queue=queue, platform="invented0").seen_at == NOW + timedelta(hours=1)
