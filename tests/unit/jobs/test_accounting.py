"""Buckets of time: hours, days and weeks in UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from wms.jobs.domain.accounting import Span, Width

MOMENT = datetime(2026, 11, 26, 1, 29, 30, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("width", "begin"),
    [
        (Width.HOUR, datetime(2026, 11, 26, 1, tzinfo=UTC)),
        (Width.DAY, datetime(2026, 11, 26, tzinfo=UTC)),
        (Width.WEEK, datetime(2026, 11, 23, tzinfo=UTC)),
    ],
)
def test_a_bucket_begins_at_the_hour_the_day_or_the_monday_in_utc(width: Width, begin: datetime) -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-9, minutes=-30)))
    assert width.begin_of(MOMENT) == width.begin_of(elsewhere) == width.begin_of(begin) == begin
    assert width.begin_of(begin - timedelta(seconds=1)) == begin - width.length


def test_a_span_names_each_bucket_from_the_first_to_the_last() -> None:
    day = Width.DAY.begin_of(MOMENT)
    span = Span(width=Width.HOUR, first=day, last=day + timedelta(hours=2))
    assert [begin.hour for begin in span.begins] == [0, 1, 2]
