"""Revisions of pages: the changes since a page was made that it shows.

Each process follows the streams of changes of jobs, task queues and the configuration in memory: two readings a second
at most, whatever the number of open pages. A page is a copy of the database at a position of the stream, which its ETag
contains; it is unchanged as long as nothing that it follows was changed by a later transaction. So all processes
answer alike, and one that has just started too.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from django.http import QueryDict

from matching.queries.site_status import SiteSum, SiteSums, site_sums
from resources.models import Site
from taskqueues.models import UsageCounter
from taskqueues.services.index.shared import index
from taskqueues.services.index_changes import changes_between
from wms.accounts.models import User
from wms.accounts.queries import standings_of
from wms.jobs.queries.changes import Position, before, now, touched
from wms.jobs.sql.revisions import JobRevision
from wms.kernel.clock import current_time
from wms.kernel.db import database_now
from wms.kernel.memo import BriefMemo
from wms.portal.forms.filters import names_owner

#: Age of a reading, in seconds, from which on the next request reads again.
MAX_AGE_S = 0.5
#: The same of sums over all users, which cost more. Open pages ask every 4.2 s (live.js), and show a change within 5 s.
SUMS_MAX_AGE_S = 0.7
#: Age up to which requests use a reading while another request reads; then they wait for it.
USED_MEANWHILE_S = 5.0
#: Seconds after which a reading is not continued: changes of task queues are removed after twice as long.
CONTINUED_WITHIN_S = 300.0
#: Subjects and transactions remembered, some 210 bytes each; beyond it, the half that changed last.
MOST_KEYS = 40_000
#: Seconds for which they are remembered, or up to twice as long: open pages ask more often, others are made anew.
REMEMBERED_S = 300.0
#: Transactions that a reading looks through; what changed earlier, and was not read then, counts as changed.
MOST_TRANSACTIONS = 20_000

#: What changes: its kind, and its primary key.
Subject: TypeAlias = tuple[str, Hashable]

_ALL: Final[Subject] = ("all", 0)
_CONFIGURATION: Final[Subject] = ("configuration", 0)
_TASK_QUEUES: Final[Subject] = ("task queues", 0)
_SUBMISSION: Final = "submission"


class StreamPlace(NamedTuple):
    """A place in the stream of changes: a page shows what the transactions before it changed."""

    #: Number of the first transaction after it.
    end: int
    #: Earlier ones that were not over.
    running: frozenset[int]

    @classmethod
    def of(cls, snapshot: str) -> Self:
        """Return the place of a snapshot of PostgreSQL."""
        position = Position(seen=snapshot)
        return cls(end=position.end, running=position.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Subjects whose changes a page shows."""

    keys: tuple[Subject, ...]
    #: The page may lack changes after it although they were read; None: the page reads the database itself.
    until: StreamPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownChanges:
    """The changes known at one moment."""

    end: Position
    #: Changes by earlier transactions may not be known.
    begin: int
    #: The number of the last transaction that changed each subject. Grows in place with the next reading.
    last: dict[Subject, int] = field(default_factory=dict)
    #: Subjects that each transaction changed; likewise.
    changed_by: dict[int, tuple[Subject, ...]] = field(default_factory=dict)
    #: By the monotonic clock.
    read_at: float = field(default_factory=monotonic)
    #: Begin of what is still remembered in REMEMBERED_S, and since when it is.
    mark: int = 0
    marked_at: float = field(default_factory=monotonic)

    @property
    def place(self) -> StreamPlace:
        """The place of a page that is made now."""
        return StreamPlace.of(self.end.seen)

    def has_changed(self, keys: Collection[Subject], *, since: StreamPlace) -> bool:
        """Return whether one of the subjects was changed, or may have been, after a place."""
        if not keys:
            return False
        # One far beyond the end is from before the database was restored.
        if not self.begin <= since.end <= self.end.end + MOST_TRANSACTIONS:
            return True
        if any(self.last.get(key, 0) >= since.end for key in keys):
            return True
        # Transactions that are committed late.
        for number in since.running - self.end.running:
            subjects = self.changed_by.get(number, ())
            if not set(keys).isdisjoint(subjects) or (number < self.begin and not subjects):
                return True
        return False


class Revisions:
    """The last reading of this process, which one thread at a time renews while the others use it."""

    def __init__(self) -> None:
        self._reads = Lock()
        self._reading: KnownChanges | None = None

    def reading(self) -> KnownChanges:
        """Return the changes as of MAX_AGE_S ago at most; of USED_MEANWHILE_S if another thread is reading."""
        reading = self._reading
        if reading is not None and _age_s(reading) < MAX_AGE_S:
            return reading
        usable = reading if reading is not None and _age_s(reading) < USED_MEANWHILE_S else None
        if not self._reads.acquire(blocking=usable is None) and usable is not None:
            return usable
        try:
            reading = self._reading
            if reading is None or _age_s(reading) >= MAX_AGE_S:
                self._reading = reading = _next(reading)
            return reading
        finally:
            self._reads.release()


def _age_s(reading: KnownChanges) -> float:
    return monotonic() - reading.read_at


def _next(reading: KnownChanges | None) -> KnownChanges:
    read_at, end = monotonic(), now()
    if (
        reading is None
        or _age_s(reading) > CONTINUED_WITHIN_S
        or not 0 <= end.end - reading.end.end <= MOST_TRANSACTIONS
    ):
        since = before(end, transactions=MOST_TRANSACTIONS)
        reading = KnownChanges(end=since, begin=since.end)
        # Changes of the configuration so long ago may have been removed.
        _note(reading, end.end - 1, {_CONFIGURATION, _TASK_QUEUES})
    for change in touched(reading.end, end):
        of_job: set[Subject] = {
            ("owner", change.owner_id),
            ("group", change.group_id),
            ("vo", change.vo_id),
            (_SUBMISSION, change.submission_id),
            _ALL,
        }
        _note(reading, change.transaction, of_job)
    for transaction, is_of_configuration in changes_between(reading.end.seen, end.seen):
        _note(reading, transaction, {_CONFIGURATION if is_of_configuration else _TASK_QUEUES})
    return _bounded(replace(reading, end=end, read_at=read_at))


def _note(reading: KnownChanges, transaction: int, subjects: set[Subject]) -> None:
    reading.changed_by[transaction] = tuple({*reading.changed_by.get(transaction, ()), *subjects})
    reading.last.update((each, max(transaction, reading.last.get(each, 0))) for each in subjects)


def _bounded(reading: KnownChanges) -> KnownChanges:
    """Return the reading without old changes when it is time, as a copy: other threads may still read the whole."""
    if len(reading.last) + len(reading.changed_by) > MOST_KEYS:
        numbers = sorted([*reading.last.values(), *reading.changed_by])
        begin = numbers[len(numbers) // 2]
    elif reading.read_at - reading.marked_at > REMEMBERED_S:
        begin = reading.mark
    else:
        return reading
    begin = max(reading.begin, begin)
    return replace(
        reading,
        begin=begin,
        # Users, groups and VOs are few; without them their last change would seem to be undone (``last_change``).
        last={key: number for key, number in reading.last.items() if number >= begin or key[0] != _SUBMISSION},
        changed_by={number: keys for number, keys in reading.changed_by.items() if number >= begin},
        mark=reading.end.end,
        marked_at=reading.read_at,
    )


_revisions = Revisions()


def reading() -> KnownChanges:
    """Return the changes that this process knows."""
    return _revisions.reading()


# ---- subjects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The groups and VOs of a user, on which it depends what its pages show."""

    #: (Group, its VO).
    groups: frozenset[tuple[int, int]]
    #: Those of the groups whose members see one another's jobs.
    sharing: frozenset[int]
    managed_vos: frozenset[int]
    #: Open invitations to groups.
    invitations: frozenset[int]

    @property
    def vo_ids(self) -> frozenset[int]:
        """VOs of the groups."""
        return frozenset(vo_id for _, vo_id in self.groups)

    @property
    def values(self) -> Sequence[object]:
        """All of it, in one order."""
        return sorted(self.groups), sorted(self.sharing), sorted(self.managed_vos), sorted(self.invitations)


#: Pages of one user, often several tabs, ask at the same time.
_scopes: Final[BriefMemo[Scope]] = BriefMemo(kept_s=MAX_AGE_S)


#: By user.
_administered: Final[BriefMemo[frozenset[int]]] = BriefMemo(kept_s=SUMS_MAX_AGE_S)


def scope_of(user: User) -> Scope:
    """Return the groups and VOs of *user*, with one statement."""
    return _scopes.get(user.pk, lambda: _scope(user))


def _scope(user: User) -> Scope:
    standings = standings_of(user, now=current_time())
    return Scope(
        groups=frozenset((each.id, each.vo_id) for each in standings if each.kind == "group"),
        sharing=frozenset(each.id for each in standings if each.kind == "group" and each.shares_jobs),
        managed_vos=frozenset(each.id for each in standings if each.kind == "vo"),
        invitations=frozenset(each.id for each in standings if each.kind == "invitation"),
    )


def sees(user: User, job: JobRevision) -> bool:
    """Return whether *user* was allowed to see a job a moment ago."""
    scope = scope_of(user)
    return (
        user.is_operator or job.owner_id == user.pk or job.group_id in scope.sharing or job.vo_id in scope.managed_vos
    )


def visible_vos(user: User) -> frozenset[int] | None:
    """Return the VOs of which *user* sees sums; None: all."""
    return None if user.is_operator else scope_of(user).vo_ids | scope_of(user).managed_vos


def administered_sites(user: User) -> frozenset[int]:
    """Return the sites that *user* administers."""
    read = lambda: frozenset(Site.objects.administered_by(user).values_list("pk", flat=True))  # noqa: E731
    return _administered.get(user.pk, read)


def own_jobs(user: User) -> tuple[Followed]:
    """Follow the jobs that *user* owns."""
    return (Followed(keys=(("owner", user.pk),)),)


def jobs_seen_by(user: User) -> tuple[Followed]:
    """Follow the jobs that *user* may see."""
    if user.is_operator:
        return (Followed(keys=(_ALL,)),)
    scope = scope_of(user)
    groups, vos = (("group", pk) for pk in sorted(scope.sharing)), (("vo", pk) for pk in sorted(scope.managed_vos))
    return (Followed(keys=(("owner", user.pk), *groups, *vos)),)


def searched_jobs(user: User, query: QueryDict) -> tuple[Followed]:
    """Follow the jobs among which a page about jobs searches: one's own, unless its query names an owner."""
    return jobs_seen_by(user) if names_owner(query, now=current_time()) else own_jobs(user)


def jobs_of_groups(user: User) -> tuple[Followed]:
    """Follow the jobs in the groups of *user*, and of the VOs that it manages, for pages with sums of all members."""
    if user.is_operator:
        return (Followed(keys=(_ALL,)),)
    scope = scope_of(user)
    groups, vos = (("group", pk) for pk, _ in sorted(scope.groups)), (("vo", pk) for pk in sorted(scope.managed_vos))
    return (Followed(keys=(("owner", user.pk), *groups, *vos)),)


def of_submission(submission: UUID) -> tuple[Followed]:
    """Follow the jobs of a submission."""
    return (Followed(keys=((_SUBMISSION, submission),)),)


def configuration() -> tuple[Followed]:
    """Follow sites, computing elements, queues, VOs, groups and limits."""
    return (Followed(keys=(_CONFIGURATION,)),)


def own_demand(user: User) -> tuple[Followed]:
    """Follow the jobs of *user* and the configuration, for pages made from the index of task queues."""
    return _as_indexed(("owner", user.pk), _CONFIGURATION)


def demand_of_vos(user: User) -> tuple[Followed]:
    """Follow the jobs and task queues of the VOs of *user*, for pages made from the index of task queues."""
    vo_ids = visible_vos(user)
    jobs = [_ALL] if vo_ids is None else [("vo", pk) for pk in sorted(vo_ids)]
    return _as_indexed(("owner", user.pk), *jobs, _CONFIGURATION, _TASK_QUEUES)


def _as_indexed(*keys: Subject) -> tuple[Followed]:
    """Return the subjects with the time of the index, which may be some tenths of a second older than the changes."""
    return (Followed(keys=keys, until=StreamPlace.of(index.current().view.seen)),)


#: Sums over all users are read for all pages together.
_site_sums: Final[BriefMemo[SiteSums]] = BriefMemo(kept_s=SUMS_MAX_AGE_S)
#: By what they are sums of.
_sums_of_vos: Final[BriefMemo[Mapping[int, SiteSum]]] = BriefMemo(kept_s=2 * SUMS_MAX_AGE_S)
_digests_of_sums: Final[BriefMemo[bytes]] = BriefMemo(kept_s=2 * SUMS_MAX_AGE_S)
_usage: Final[BriefMemo[datetime | None]] = BriefMemo(kept_s=SUMS_MAX_AGE_S)


def sums_of_sites(user: User) -> Mapping[int, SiteSum]:
    """Return what happens at each site, in the VOs of *user*, as of SUMS_MAX_AGE_S ago at most.

    Sums at sites that *user* administers are of all VOs.
    """
    return _of_sites(_newest_site_sums(), visible_vos(user), administered_sites(user))


def digest_of_sums(user: User) -> bytes:
    """Return bytes that change with ``sums_of_sites``."""
    key = (_newest_site_sums(), visible_vos(user), administered_sites(user))
    return _digests_of_sums.get(key, lambda: sha256(repr(_of_sites(*key)).encode()).digest())


def _of_sites(sums: SiteSums, vo_ids: frozenset[int] | None, site_ids: frozenset[int]) -> Mapping[int, SiteSum]:
    """Return the sums by site, of some VOs, and at some sites of all."""
    of_vos = _of_vos(sums, vo_ids)
    if not site_ids:
        return of_vos
    whole = _of_vos(sums, None)
    return {**of_vos, **{pk: whole[pk] for pk in sorted(site_ids & whole.keys())}}


def _of_vos(sums: SiteSums, vo_ids: frozenset[int] | None) -> Mapping[int, SiteSum]:
    return _sums_of_vos.get((sums, vo_ids), lambda: sums.of_vos(vo_ids))


def _newest_site_sums() -> SiteSums:
    return _site_sums.get("sums", lambda: site_sums(now=database_now()))


def usage() -> tuple[datetime | None]:
    """Return the time until which the usage of groups was counted; None: never."""
    return (_usage.get("counted", lambda: UsageCounter.objects.values_list("counted_until", flat=True).first()),)


def last_change(*followed: Followed) -> int:
    """Return the number of the last known transaction that changed one of these; 0: none is known."""
    last = _revisions.reading().last
    return max((last.get(key, 0) for each in followed for key in each.keys), default=0)
