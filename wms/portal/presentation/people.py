"""The list of people, and the page of one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from wms.accounts.models import Membership, User
from wms.jobs.queries.people import PastUsage, PresentJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonGroup:
    """A membership in a group of a VO that the reader manages."""

    name: str
    vo: str
    is_default: bool
    #: By a claim of a provider, which comes and goes with log-ins.
    is_by_claim: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """One person in the list."""

    pk: int
    username: str
    full_name: str
    email: str
    is_active: bool
    groups: Sequence[PersonGroup]
    jobs: PresentJobs
    usage: PastUsage

    @property
    def core_hours(self) -> str:
        """Core hours of the jobs that ended, with one digit."""
        return hours(self.usage)


def person_row(
    person: User,
    *,
    memberships: Collection[Membership],
    jobs: Mapping[int, PresentJobs],
    usage: Mapping[int, PastUsage],
) -> PersonRow:
    """Return the row of a person.

    Args:
        person: the user.
        memberships: of the person, with group and VO, that the reader sees.
        jobs: from ``present_jobs``.
        usage: from ``past_usage``.
    """
    return PersonRow(
        pk=person.pk,
        username=person.username,
        full_name=person.get_full_name(),
        email=person.email,
        is_active=person.is_active,
        groups=[
            PersonGroup(
                name=each.group.name,
                vo=each.group.vo.name,
                is_default=each.group_id == person.default_group_id,
                is_by_claim=each.confirmed_at is not None,
            )
            for each in memberships
        ],
        jobs=jobs.get(person.pk, PresentJobs()),
        usage=usage.get(person.pk, PastUsage()),
    )


def hours(usage: PastUsage) -> str:
    """Return core hours with one digit."""
    return f"{usage.core_s / 3600:,.1f}"
