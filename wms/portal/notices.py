"""Notices in the banner of every page: what is wrong with the system, as far as it concerns the user.

What is equal for all users is read once in some seconds by each process. Nothing more is read as long as no site of the
user's VOs is closed.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.urls import reverse
from django.utils import timezone

from resources.queries.places import ClosedSite, closed_sites
from taskqueues.queries import task_queues_naming
from wms.accounts.models import Group, User
from wms.jobs.queries.found_jobs import newest_at
from wms.kernel import pulse
from wms.kernel.memo import BriefMemo
from wms.kernel.time_texts import to_the_second

#: Sites that are named one by one.
MOST_SITES: Final = 5
#: Time in which jobs ran at a site whose state concerns their owner.
RECENTLY: Final = timedelta(days=1)
#: Newest jobs at closed sites, and task queues that require them, that are looked at.
_MOST_JOBS: Final = 100
_MOST_TASK_QUEUES: Final = 100
_closed_sites: Final[BriefMemo[list[ClosedSite]]] = BriefMemo(kept_s=5)
_beat: Final[BriefMemo[bool]] = BriefMemo(kept_s=5)


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


def notices_of(user: User, *, groups: Sequence[Group], is_invited: bool) -> list[Notice]:
    """Return the notices for *user*, the most urgent first.

    Args:
        user: the reader.
        groups: of the user.
        is_invited: whether the user has an invitation to a group.
    """
    notices = []
    if not _beat_is_felt():
        text = (
            "The server's background work has stopped: no pilots are sent, and numbers on these pages may be old. Your "
            "jobs are kept; its operators have to start it again."
        )
        notices.append(Notice(kind=NoticeKind.ERROR, text=text))
    if not groups:
        notices.append(_without_group(is_invited=is_invited))
    notices += _of_sites(user, vo_ids=frozenset(group.vo_id for group in groups), now=timezone.now())
    return notices


def revision() -> Sequence[object]:
    """Return values that change whenever a part of the notices changes that is equal for all users; for live pages."""
    return _beat_is_felt(), *((site.id, site.state, site.until) for site in _closed())


def _beat_is_felt() -> bool:
    return _beat.get("beat", lambda: pulse.is_felt(pulse.BEAT))


def _closed() -> list[ClosedSite]:
    return _closed_sites.get("sites", lambda: closed_sites(now=timezone.now()))


def _without_group(*, is_invited: bool) -> Notice:
    if is_invited:
        text = "You are in no group yet, so you cannot submit jobs. You are invited to one: accept the invitation."
    else:
        text = (
            "You are in no group, so you cannot submit jobs. Ask a manager of your experiment's VO to invite you to a "
            "group."
        )
    return Notice(kind=NoticeKind.WARNING, text=text, url=reverse("portal:groups"))


def _of_sites(user: User, *, vo_ids: Collection[int], now: datetime) -> Iterator[Notice]:
    closed = {site.id: site for site in _closed() if (not site.vo_ids or not site.vo_ids.isdisjoint(vo_ids)) and vo_ids}
    if not closed:
        return
    # Sites that the user's VOs do not use are not among them, even if jobs name them.
    required = task_queues_naming([site.name for site in closed.values()], owner=user, at_most=_MOST_TASK_QUEUES)
    named = {name for names in required for name in names}
    newest = newest_at(user, list(closed), at_most=_MOST_JOBS)
    used = set(newest.filter(status_changed_at__gte=now - RECENTLY).values_list("site_id", flat=True))
    concerning = [site for site in closed.values() if site.name in named or site.id in used]
    for site in concerning[:MOST_SITES]:
        yield Notice(kind=NoticeKind.WARNING, text=_about(site, is_required=site.name in named))
    if len(concerning) > MOST_SITES:
        text = f"{len(concerning) - MOST_SITES} more sites that your jobs use or require are banned or draining."
        yield Notice(kind=NoticeKind.WARNING, text=text)


def _about(site: ClosedSite, *, is_required: bool) -> str:
    until = f" until {to_the_second(site.until)}" if site.until else ""
    reason = f" ({site.reason})" if site.reason else ""
    which = "which jobs of yours that wait require," if is_required else "where your jobs ran in the last day,"
    return f"{site.name}, {which} is {site.state}{until}{reason}: no new jobs start there."
