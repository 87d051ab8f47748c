"""The buckets of the accounting: hours, days and weeks, in UTC, and the properties by which jobs are told apart."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum


class Width(IntEnum):
    """Length of a bucket in seconds."""

    HOUR = 3600
    DAY = 24 * HOUR
    WEEK = 7 * DAY

    @property
    def length(self) -> timedelta:
        """The same as a duration."""
        return timedelta(seconds=self)

    def begin_of(self, moment: datetime) -> datetime:
        """Return the begin of the bucket that *moment* is in; weeks begin on Mondays."""
        hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if self is Width.HOUR:
            return hour
        day = hour.replace(hour=0)
        return day if self is Width.DAY else day - timedelta(days=day.weekday())


class Grouping(StrEnum):
    """A property of jobs by which they are accounted for."""

    SITE = "site"
    USER = "user"
    GROUP = "group"
    JOB_TYPE = "type"


class ReportKey(StrEnum):
    """A property by which the rows of a report are told apart."""

    GROUP = "group"
    USER = "user"
    SITE = "site"
    JOB_TYPE = "type"
    #: A calendar month in UTC.
    MONTH = "month"
    #: The site's parameter ``Country``.
    COUNTRY = "country"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedCount:
    """The number of waiting jobs of one owner, group and type that no batch queue fits."""

    owner_id: int
    group_id: int
    job_type: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some consecutive buckets of one length."""

    width: Width
    #: Begins of the first and of the last bucket.
    first: datetime
    last: datetime

    @property
    def begins(self) -> list[datetime]:
        """The begin of each bucket."""
        number = (self.last - self.first) // self.width.length
        return [self.first + index * self.width.length for index in range(number + 1)]
