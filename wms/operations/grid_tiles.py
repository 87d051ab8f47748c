"""Tiles about the way of jobs to resources: directors, computing elements, black holes, throttles and limits."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q

from matching.queries.restrictions import leased_jobs_at
from pilots.models import BlackHole, CEHealth, DirectorRun
from pilots.queries import stand_still
from resources.domain.advertised_load import CURRENT
from resources.domain.enums import ResourceState, ThrottlePolicy
from resources.models import Site
from resources.queries.throttles import standings
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words
from wms.accounts.models import VO
from wms.kernel.names import counted
from wms.operations.tile import Tile, shown


def directors_tile(*, now: datetime) -> Tile:
    """Return the tile of the last cycle of the directors."""
    name, run = "Directors", DirectorRun.objects.filter(pk=1).first()
    if run is None:
        return Tile(name=name, is_well=True, text="no cycle yet")
    if stand_still(run, now=now):
        to_do = "Look at beat, Worker control, and the task pilots.serve_ces: no pilots are sent."
        return Tile(name=name, is_well=False, text="no cycle", since=run.ran_at, to_do=to_do)
    return Tile(name=name, is_well=True, text="run without a break", since=run.running_since)


def failing_ces(*, now: datetime) -> Sequence[CEHealth]:
    """Return the health of the computing elements that fail, but of those that are banned or draining."""
    troubled = CEHealth.objects.filter(~Q(trouble="") | Q(failures__gt=0)).select_related("ce__site")
    return [
        health
        for health in troubled.order_by("ce__site__name", "ce__name")
        if {health.ce.state_at(now), health.ce.site.state_at(now)} == {ResourceState.ACTIVE}
    ]


def ces_tile(*, now: datetime) -> Tile:
    """Return the tile of the computing elements that fail."""
    name, failing = "Computing elements", failing_ces(now=now)
    if not failing:
        return Tile(name=name, is_well=True, text="none fails", url_name="admin:pilots_cehealth_changelist")
    return Tile(
        name=name,
        is_well=False,
        text="1 fails" if len(failing) == 1 else f"{len(failing):,} fail",
        since=min((health.asked_at for health in failing if health.asked_at), default=None),
        to_do="Repair what the sentence names, then ask again; ban a computing element that stays away.",
        lines=shown([f"{health.ce.name} of {health.ce.site.name}: {_trouble(health)}" for health in failing]),
        url_name="admin:pilots_cehealth_changelist",
        may_ask_again=True,
    )


def _trouble(health: CEHealth) -> str:
    return health.trouble or f"{health.failures:,} failed rounds"


def black_holes_tile(*, now: datetime) -> Tile:
    """Return the tile of the hosts that get no jobs."""
    to_do = "Have the site repair the host, then lift it; it gets jobs by itself when its time is over."
    holes = list(BlackHole.objects.in_force(now=now).select_related("site").order_by("found_at", "pk"))
    return Tile(
        name="Black holes",
        is_well=not holes,
        text="none" if not holes else "1 host gets no jobs" if len(holes) == 1 else f"{len(holes):,} hosts get no jobs",
        since=holes[0].found_at if holes else None,
        to_do=to_do if holes else "",
        lines=shown([f"{hole.host_name} at {hole.site.name}: {hole.reason}" for hole in holes]),
        url_name="admin:pilots_blackhole_changelist",
    )


def throttles_tile(*, now: datetime) -> Tile:
    """Return the tile of the throttles that let no job pass: expired, without any room, or though no job is there.

    One that is full of this system's jobs does what it is for.
    """
    sites = Site.objects.exclude(throttle_policy=ThrottlePolicy.NONE).order_by("name")
    active = [site for site in sites if site.state_at(now) is ResourceState.ACTIVE]
    closed = {pk: standing for pk, standing in standings(active, now=now).items() if not standing.accepting}
    jobs = leased_jobs_at(closed.keys()) if closed else {}
    stuck = {
        site.name: closed[site.pk]
        for site in active
        if site.pk in closed and (closed[site.pk].is_expired or not jobs[site.pk][CURRENT])
    }
    since = [each.expires_at if each.is_expired else each.measured_at for each in stuck.values()]
    to_do = "Let the gateway of the site advertise again, or correct the policy or maximum of the site."
    return Tile(
        name="Throttles",
        is_well=not stuck,
        text=f"{len(stuck):,} of {len(active):,} are closed" if stuck else f"{len(active):,}, none is closed for good",
        since=min(filter(None, since), default=None),
        to_do=to_do if stuck else "",
        lines=shown([f"{name}: {each.why_closed}" for name, each in stuck.items()]),
        url_name="admin:resources_sitethrottle_changelist",
    )


def limits_tile() -> Tile:
    """Return the tile of the limits of zero; those that close a whole VO, or all, are red."""
    zero = Limit.objects.filter(Q(running=0) | Q(waiting=0) | Q(cpu_s_per_day=0)).order_by("pk")
    limits = list(zero.select_related("vo", "site", "ce__site", "group", "user"))
    closing = [limit for limit in limits if not any((limit.site, limit.ce, limit.group, limit.user, limit.job_type))]
    to_do = "Remove the limit, or raise it, when the VO may run again (`limits` of the configuration)."
    others = f"; {len(limits) - len(closing):,} on a part of a VO" if len(limits) > len(closing) else ""
    return Tile(
        name="Limits of zero",
        is_well=not closing,
        text=f"{len(closing):,} on a whole VO{others}" if closing else f"none on a whole VO{others}",
        to_do=to_do if closing else "",
        lines=shown([f"jobs of {limit_in_words(limit)}: {_zeros(limit)}" for limit in closing]),
        url_name="admin:taskqueues_limit_changelist",
    )


def pauses_tile(*, now: datetime) -> Tile:
    """Return the tile of the VOs for which matching is paused."""
    paused = list(VO.objects.paused_after(now).order_by("name"))
    return Tile(
        name="Pauses",
        is_well=not paused,
        text=f"{counted(len(paused), 'VO')} paused" if paused else "no VO is paused",
        to_do="It ends by itself; end it earlier when the jobs may run." if paused else "",
        lines=shown([vo.why_paused(now) for vo in paused]),
        url_name="admin:accounts_vo_changelist",
    )


def _zeros(limit: Limit) -> str:
    zeros = {"running": limit.running, "waiting": limit.waiting, "cpu_s_per_day": limit.cpu_s_per_day}
    return ", ".join(f"{name} 0" for name, value in zeros.items() if value == 0)
