"""Amounts that a user may make or store, and how much of them is used (ADR 86)."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import CurrentJobCount, MadeToday, StoredBytes
from wms.kernel.db import DatabaseNow

WAITING: Final = (JobStatus.WAITING, JobStatus.HELD, JobStatus.CHECKING)


class StoredAmount(NamedTuple):
    """Bytes that a user, or a VO, has stored."""

    inputs: int
    outputs: int

    @property
    def both(self) -> int:
        """All of them."""
        return self.inputs + self.outputs


class UsedAmount(NamedTuple):
    """One bound of a user, and how much of it is used."""

    what: str
    used: int
    most: int
    in_bytes: bool = False


def waiting_jobs_of(owner: User) -> int:
    """Return the number of jobs of *owner* that wait, in groups without PRODUCTION."""
    # Uses index: job_count_is_one_row
    theirs = CurrentJobCount.objects.filter(owner=owner, status__in=WAITING).exclude(
        group__in=Group.objects.production()
    )
    return int(theirs.aggregate(sum=Sum("jobs"))["sum"] or 0)


def leased_and_waiting(owners: Collection[User], *, seen_by: User) -> tuple[int, int]:
    """Return the numbers of jobs of *owners* that pilots hold, and that wait, among those that *seen_by* sees."""
    theirs = CurrentJobCount.objects.visible_to(seen_by).filter(owner__in=[owner.pk for owner in owners])
    return sums_of_leased_and_waiting(theirs)


def sums_of_leased_and_waiting(counts: QuerySet[CurrentJobCount]) -> tuple[int, int]:
    """Return the numbers of jobs that pilots hold, and that wait, are held or checked."""
    sums = counts.aggregate(
        leased=Sum("jobs", filter=Q(status__in=LEASED)), waiting=Sum("jobs", filter=Q(status__in=WAITING))
    )
    return int(sums["leased"] or 0), int(sums["waiting"] or 0)


def stored_by(*, owner: int) -> StoredAmount:
    """Return what a user has stored, each upload counted."""
    return _stored(owner=owner)


def stored_in(*, vo: int) -> StoredAmount:
    """Return what all users have stored in a VO."""
    # Uses index: stored_bytes_of_vo
    return _stored(vo=vo)


def _stored(**of: int) -> StoredAmount:
    sums = StoredBytes.objects.filter(**of).aggregate(inputs=Sum("input_bytes"), outputs=Sum("output_bytes"))
    return StoredAmount(int(sums["inputs"] or 0), int(sums["outputs"] or 0))


def amounts_of(user: User) -> Sequence[UsedAmount]:
    """Return the amounts of *user* that are bounded."""
    made = MadeToday.objects.filter(owner=user, day=TruncDate(DatabaseNow())).first()
    stored = stored_by(owner=user.pk)
    amounts = (
        UsedAmount("Jobs submitted today (UTC)", made.jobs if made else 0, settings.WMS_MAX_JOBS_PER_DAY),
        UsedAmount(
            "Their descriptions",
            made.description_bytes if made else 0,
            settings.WMS_MAX_DESCRIPTION_BYTES_PER_DAY,
            in_bytes=True,
        ),
        UsedAmount("Waiting jobs", waiting_jobs_of(user), settings.WMS_MAX_WAITING_JOBS_PER_USER),
        UsedAmount("Uploaded sandboxes", stored.inputs, settings.WMS_SANDBOX_QUOTA_BYTES, in_bytes=True),
        UsedAmount("Outputs of jobs", stored.outputs, settings.WMS_OUTPUT_QUOTA_BYTES, in_bytes=True),
    )
    return [amount for amount in amounts if amount.most]
