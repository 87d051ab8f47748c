"""Notices in the banner of every page: what is wrong with the system, as far as it concerns the user.

What is equal for all users is read once by each process, and again when the configuration has changed. Nothing more is
read as long as no site, computing element or queue of the user's VOs is closed, or none of the user's jobs changes.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.urls import reverse
from django.utils.text import capfirst

from matching.queries.explain.unmatched import places_only_closed_for
from resources.queries.places import ClosedPlace, closed_places
from taskqueues.queries import required_places
from wms.accounts.models import VO, Group, User
from wms.accounts.oidc.configuration import providers
from wms.accounts.services.people import people_who_wait
from wms.jobs.queries.found_jobs import newest_at
from wms.kernel import liveness
from wms.kernel.clock import complaint_of_clock, current_time
from wms.kernel.memo import BriefMemo
from wms.kernel.time_texts import to_the_second
from wms.portal import revisions
from wms.portal.revisions import Scope

#: Places that are named one by one.
MOST_PLACES: Final = 5
#: Time in which jobs ran at a place whose state concerns their owner.
RECENTLY: Final = timedelta(days=1)
#: Newest jobs at sites with closed places, and task queues that require them, that are looked at.
_MOST_JOBS: Final = 100
_MOST_TASK_QUEUES: Final = 100
#: Read again when the configuration changes.
_closed_places: Final[BriefMemo[list[ClosedPlace]]] = BriefMemo(kept_s=60)
_paused: Final[BriefMemo[list[VO]]] = BriefMemo(kept_s=60)
_beat: Final[BriefMemo[bool]] = BriefMemo(kept_s=revisions.SUMS_MAX_AGE_S)
#: Number of people who wait for a user; with WMS_OIDC_PROVIDERS only.
_waiting: Final[BriefMemo[int]] = BriefMemo(kept_s=5)
#: By VOs; states end by themselves.
_closed_for: Final[BriefMemo[Sequence[ClosedPlace]]] = BriefMemo(kept_s=revisions.SUMS_MAX_AGE_S)
#: Made again when a job of the user, or what is closed, changes; the last day moves on, too.
_of_user: Final[BriefMemo[Sequence["Notice"]]] = BriefMemo(kept_s=60)


class NoticeKind(StrEnum):
    """Kind of a notice, which is its style."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice: a sentence or two."""

    kind: NoticeKind
    text: str
    #: Page with more about it; empty: none.
    url: str = ""


def notices_of(user: User, *, groups: Sequence[Group], is_invited: bool, is_manager: bool) -> list[Notice]:
    """Return the notices for *user*, the most urgent first.

    Args:
        user: the reader.
        groups: of the user.
        is_invited: whether the user has an invitation to a group.
        is_manager: whether the user manages a VO or a site, or operates the system; such a user needs no group.
    """
    vo_ids = frozenset(group.vo_id for group in groups)
    return _notices(user, vo_ids=vo_ids, is_invited=is_invited, is_manager=is_manager)


def revision(user: User, *, scope: Scope) -> Sequence[object]:
    """Return the notices for *user* with this scope, for the ETags of live pages."""
    is_manager = user.is_operator or bool(scope.managed_vos or revisions.administered_sites(user))
    return _notices(user, vo_ids=scope.vo_ids, is_invited=bool(scope.invitations), is_manager=is_manager)


def closed_for(vo_ids: frozenset[int] | None) -> Sequence[ClosedPlace]:
    """Return the places that are banned or draining now and serve one of these VOs, but those inside a closed one.

    Args:
        vo_ids: None: all.
    """
    configured = revisions.last_change(*revisions.configuration())
    return _closed_for.get((configured, vo_ids), lambda: _closed(configured, vo_ids, now=current_time()))


def closed_at(site_id: int) -> Sequence[ClosedPlace]:
    """Return the places of a site that are banned or draining now, also those inside a closed one."""
    places = _closed_places.get(revisions.last_change(*revisions.configuration()), closed_places)
    now = current_time()
    return tuple(place for place in places if place.ids[0] == site_id and place.is_closed(now=now))


def _closed(configured: int, vo_ids: frozenset[int] | None, *, now: datetime) -> Sequence[ClosedPlace]:
    places = _closed_places.get(configured, closed_places)
    closed = [place for place in places if place.is_closed(now=now) and place.serves_one_of(vo_ids)]
    ids = {place.ids for place in closed}
    return tuple(place for place in closed if ids.isdisjoint(place.outer_ids))


def _notices(user: User, *, vo_ids: frozenset[int], is_invited: bool, is_manager: bool) -> list[Notice]:
    notices = []
    if not _beat.get("beat", lambda: liveness.is_alive(liveness.BEAT)):
        text = (
            "The server's background work has stopped: no pilots are sent, and numbers on these pages may be old. Your "
            "jobs are kept; its operators have to start it again."
        )
        notices.append(Notice(kind=NoticeKind.ERROR, text=text))
    if user.is_operator and (complaint := complaint_of_clock()):
        notices.append(Notice(kind=NoticeKind.WARNING, text=complaint))
    if not vo_ids and (is_invited or not is_manager):
        notices.append(_without_group(is_invited=is_invited))
    return [*notices, *_of_pauses(vo_ids), *_of_people(user), *_of_places(user, vo_ids=vo_ids)]


def _of_pauses(vo_ids: frozenset[int]) -> Sequence[Notice]:
    """Return the notices of VOs for which matching is paused."""
    if not vo_ids:
        return ()
    configured, now = revisions.last_change(*revisions.configuration()), current_time()
    paused = _paused.get(configured, lambda: list(VO.objects.paused_after(now).order_by("name")))
    reasons = [vo.why_paused(now) for vo in paused if vo.pk in vo_ids]
    return [
        Notice(kind=NoticeKind.WARNING, text=f"{capfirst(why)}. Jobs wait until then; those that run go on.")
        for why in reasons
        if why
    ]


def _of_people(user: User) -> Sequence[Notice]:
    waiting = _waiting.get(user.pk, lambda: people_who_wait(user, now=current_time()).count()) if providers() else 0
    if not waiting:
        return ()
    text = f"{waiting} {'person waits' if waiting == 1 else 'people wait'} to be admitted."
    return [Notice(kind=NoticeKind.WARNING, text=text, url=reverse("portal:people-who-wait"))]


def _without_group(*, is_invited: bool) -> Notice:
    if is_invited:
        text = "You are in no group yet, so you cannot submit jobs. You are invited to one: accept the invitation."
    else:
        text = (
            "You are in no group, so you cannot submit jobs. Ask a manager of your experiment's VO to invite you to a "
            "group."
        )
    return Notice(kind=NoticeKind.WARNING, text=text, url=reverse("portal:groups"))


def _of_places(user: User, *, vo_ids: frozenset[int]) -> Sequence[Notice]:
    # Places that the user's VOs do not use are not among them, even if jobs name them.
    closed = closed_for(vo_ids)
    if not closed:
        return ()
    key = (user.pk, closed, revisions.last_change(*revisions.own_jobs(user)))
    return _of_user.get(key, lambda: _about_places(user, closed, now=current_time()))


def _about_places(user: User, closed: Sequence[ClosedPlace], *, now: datetime) -> Sequence[Notice]:
    concerning = _Concerning(user, closed, now=now)
    texts = [_about(place, why) for place in closed if (why := concerning.why(place))]
    if len(texts) > MOST_PLACES:
        further = len(texts) - MOST_PLACES
        kinds = "places" if any(len(place.names) > 1 for place in closed) else "sites"
        texts[MOST_PLACES:] = [f"{further} more {kinds} that your jobs use or require are banned or draining."]
    return [Notice(kind=NoticeKind.WARNING, text=text) for text in texts]


class _Concerning:
    """Reasons why closed places concern a user."""

    def __init__(self, user: User, closed: Sequence[ClosedPlace], *, now: datetime) -> None:
        sites = [place.ids[0] for place in closed if len(place.names) == 1]
        parted = {place.ids[0] for place in closed if len(place.names) > 1}
        self._sites, self._ces = required_places(
            sites={place.names[0] for place in closed if len(place.names) == 1},
            ces={place.names[1] for place in closed if len(place.names) == 2},
            owner=user,
            at_most=_MOST_TASK_QUEUES,
        )
        # Apart, so that many jobs at one kind do not hide those at the other.
        self._used = frozenset(
            ids for site_ids in (sites, parted) if site_ids for ids in _used(user, site_ids, since=now - RECENTLY)
        )
        self._only = _with_outer(
            places_only_closed_for(user, sites=sorted({place.names[0] for place in closed}), now=now)
        )

    def why(self, place: ClosedPlace) -> str:
        """Return a relative clause about the place; empty: it does not concern the user."""
        match place.names:
            case (site,) if site in self._sites:
                return "which jobs of yours that wait require"
            case (_, ce) if ce in self._ces:
                return "which jobs of yours that wait require"
        if place.ids in self._only:
            return "without which jobs of yours that wait fit nowhere"
        return "where your jobs ran in the last day" if place.ids in self._used else ""


def _used(user: User, site_ids: Collection[int], *, since: datetime) -> Iterable[tuple[int | None, ...]]:
    newest = newest_at(user, site_ids, at_most=_MOST_JOBS).filter(status_changed_at__gte=since)
    return _with_outer(newest.values_list("site_id", "ce_id", "queue_id"))


def _with_outer(places: Iterable[tuple[int | None, ...]]) -> frozenset[tuple[int | None, ...]]:
    """Return the places, as ids of site, CE and queue, with the levels around them."""
    return frozenset(
        ids for site, ce, queue in places for ids in ((site, None, None), (site, ce, None), (site, ce, queue))
    )


def _about(place: ClosedPlace, why: str) -> str:
    until = f" until {to_the_second(place.until)}" if place.until else ""
    reason = f" ({place.reason})" if place.reason else ""
    return f"{_in_words(place)}, {why}, is {place.state}{until}{reason}: no new jobs start there."


def _in_words(place: ClosedPlace) -> str:
    match place.names:
        case (site, ce):
            return f"The computing element {ce} of {site}"
        case (site, ce, queue):
            return f"The queue {queue} of {ce} at {site}"
    return place.names[0]
