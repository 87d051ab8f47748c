"""Commands about what jobs wait for: sites, queues, pools, pilots and shares."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

from ..connection import Record
from ..errors import ServerRefusedError, WrongUsageError
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..wire.protocol import API_V1
from .arguments import whole_number
from .command import Command, CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_SITES = (
    TableColumn("SITE", importance=5),
    TableColumn("STATE", ColumnKind.STATUS, importance=4),
    TableColumn("CES", ColumnKind.NUMBER, importance=3),
    TableColumn("QUEUES", ColumnKind.NUMBER, importance=3),
    TableColumn("REASON", importance=1),
)
_QUEUES_OF_SITE = (
    TableColumn("CE", importance=5),
    TableColumn("QUEUE", importance=6),
    TableColumn("STATE", ColumnKind.STATUS, importance=4),
    TableColumn("CPU TIME (S)", ColumnKind.NUMBER, importance=3),
    TableColumn("CORES", ColumnKind.NUMBER, importance=3),
    TableColumn("MEMORY (MB)", ColumnKind.NUMBER, importance=3),
    TableColumn("PLATFORMS", importance=2),
    TableColumn("TAGS", importance=1),
)
_TASK_QUEUES = (
    TableColumn("TASK QUEUE", ColumnKind.NUMBER, importance=9),
    TableColumn("OWNER", importance=4),
    TableColumn("GROUP", importance=3),
    TableColumn("JOBS", ColumnKind.NUMBER, importance=8),
    TableColumn("PRIORITY", ColumnKind.NUMBER, importance=7),
    TableColumn("CPU TIME (S)", ColumnKind.NUMBER, importance=6),
    TableColumn("SITES", importance=2),
    TableColumn("TAGS", importance=1),
)
_POOLS = (
    TableColumn("POOL", importance=1),
    TableColumn("QUEUES", ColumnKind.NUMBER, importance=4),
    TableColumn("REQUIREMENTS", importance=3),
    TableColumn("REFRESHED", ColumnKind.MOMENT, importance=2),
)
_PILOTS = (
    TableColumn("PILOT", ColumnKind.NUMBER, importance=9),
    TableColumn("STATUS", ColumnKind.STATUS, importance=8),
    TableColumn("SITE", importance=6),
    TableColumn("CE", importance=3),
    TableColumn("QUEUE", importance=3),
    TableColumn("HOST", importance=5),
    TableColumn("SUBMITTED", ColumnKind.MOMENT, importance=4),
    TableColumn("LAST SEEN", ColumnKind.MOMENT, importance=4),
    TableColumn("REASON", importance=1),
)
_SUMMARY = (
    TableColumn("SITE", importance=8),
    TableColumn("CE", importance=8),
    TableColumn("SUBMITTED", ColumnKind.NUMBER, importance=7),
    TableColumn("WAITING", ColumnKind.NUMBER, importance=5),
    TableColumn("STALLED", ColumnKind.NUMBER, importance=2),
    TableColumn("RUNNING", ColumnKind.NUMBER, importance=6),
    TableColumn("DONE", ColumnKind.NUMBER, importance=4),
    TableColumn("ABORTED", ColumnKind.NUMBER, importance=3),
    TableColumn("FAILED", ColumnKind.NUMBER, importance=5),
    TableColumn("LOST", ColumnKind.NUMBER, importance=3),
    TableColumn("JOBS", ColumnKind.NUMBER, importance=4),
    TableColumn("EFFICIENCY", ColumnKind.NUMBER, importance=7),
)
_SHARES = (
    TableColumn("GROUP", importance=9),
    TableColumn("VO", importance=1),
    TableColumn("SHARE", ColumnKind.NUMBER, importance=5),
    TableColumn("OF VO", ColumnKind.NUMBER, importance=6),
    TableColumn("IN EFFECT", ColumnKind.NUMBER, importance=5),
    TableColumn("LAST HOUR", ColumnKind.NUMBER, importance=3),
    TableColumn("LAST DAY", ColumnKind.NUMBER, importance=4),
    TableColumn("LAST WEEK", ColumnKind.NUMBER, importance=2),
)
_TERMS = (
    TableColumn("GROUP", importance=9),
    TableColumn("SHARE", ColumnKind.NUMBER, importance=5),
    TableColumn("EXPECTED", ColumnKind.NUMBER, importance=6),
    TableColumn("USED", ColumnKind.NUMBER, importance=6),
    TableColumn("RATIO", ColumnKind.NUMBER, importance=3),
    TableColumn("FACTOR", ColumnKind.NUMBER, importance=6),
    TableColumn("NORMALIZATION", ColumnKind.NUMBER, importance=2),
    TableColumn("CORRECTED", ColumnKind.NUMBER, importance=6),
    TableColumn("OF VO", ColumnKind.NUMBER, importance=4),
    TableColumn("APPLIED", importance=4),
)
#: Fields of a batch queue, in the order of the columns.
_OF_QUEUE = ("cpu_time_s", "processors", "memory_mb", "platforms", "tags")


def _vo_of(options: Namespace) -> dict[str, str]:
    return {} if options.vo is None else {"vo": options.vo}


def _add_vo(parser: ArgumentParser) -> None:
    parser.add_argument("--vo", metavar="VO", help="of this VO only")


# ---- sites and their queues ------------------------------------------------------------------------------------------


def _configure_sites(parser: ArgumentParser) -> None:
    parser.add_argument("site", nargs="?", metavar="SITE", help="only this one, with its batch queues")
    _add_vo(parser)


def _sites(options: Namespace, session: CommandSession) -> CommandOutput:
    sites = list(session.server.rows(f"{API_V1}sites/", query={**_vo_of(options), "page_size": "1000"}))
    if options.site is not None:
        found = [site for site in sites if site["name"] == options.site]
        if not found:
            detail = f'There is no site "{options.site}" for you; `wms sites` lists them.'
            raise ServerRefusedError({"code": "not_found", "detail": detail}, status=404)
        return CommandOutput(found[0], _site(found[0]))
    rows = [
        [
            site["name"],
            site["state"],
            len(site["ces"]),
            sum(len(ce["queues"]) for ce in site["ces"]),
            site["state_reason"],
        ]
        for site in sites
    ]
    return CommandOutput(sites, [Table(_SITES, rows, empty="No site serves your VOs.")])


def _site(site: Record) -> list[Part]:
    facts = Facts(
        [
            *(("site", site["name"]), ("status", site["state"]), ("reason", site["state_reason"])),
            *(("until", site["state_until"]), ("vos", site["vos"])),
        ]
    )
    rows = [
        [ce["name"], queue["name"], _worst(site, ce, queue), *(queue[name] for name in _OF_QUEUE)]
        for ce in site["ces"]
        for queue in ce["queues"]
    ]
    left_to_site = [
        f"The site itself starts the pilots of queue {queue['name']} of {ce['name']}."
        for ce in site["ces"]
        for queue in ce["queues"]
        if queue["max_waiting_pilots"] == 0
    ]
    return [facts, Note(""), Table(_QUEUES_OF_SITE, rows, empty="It has no queue."), *map(Note, left_to_site)]


def _worst(*levels: Record) -> str:
    """Return the state in force at a queue: the worst of the queue and of what is above it."""
    states = [level["state"] for level in levels]
    return next((state for state in ("banned", "draining") if state in states), "active")


# ---- task queues, pools, pilots --------------------------------------------------------------------------------------


def _configure_queues(parser: ArgumentParser) -> None:
    _add_vo(parser)
    parser.add_argument("--group", metavar="GROUP", help="of this group only")
    parser.add_argument("--owner", metavar="USER", help="of this owner only")
    add_limit(parser, what="task queues")


def _queues(options: Namespace, session: CommandSession) -> CommandOutput:
    given = {"vo": options.vo, "group": options.group, "owner": options.owner}
    query = {name: value for name, value in given.items() if value is not None}
    found, notes = rows_within(session, "task-queues/", query=query, limit=options.limit)
    names = ("id", "owner", "group", "jobs", "priority", "cpu_time_s", "sites", "tags")
    rows = [[f"{queue[name]:.6g}" if name == "priority" else queue[name] for name in names] for queue in found]
    return CommandOutput(found, [Table(_TASK_QUEUES, rows, empty="No job that you may see waits."), *notes])


def _configure_pools(parser: ArgumentParser) -> None:
    _add_vo(parser)


def _pools(options: Namespace, session: CommandSession) -> CommandOutput:
    pools = list(_every_pool(session, _vo_of(options)))
    rows = [[pool["id"], pool["queue_count"], _requirements(pool), pool["refreshed_at"]] for pool in pools]
    return CommandOutput(pools, [Table(_POOLS, rows, empty="There is no submit pool.")])


def _requirements(pool: Record) -> list[str]:
    return [f"{name}={value}" for name, value in pool["requirements"].items()]


def _every_pool(session: CommandSession, query: dict[str, str]) -> Iterator[Record]:
    path = f"{API_V1}submit-pools/"
    page = session.server.get(path, query=query, expects="submit_pools")
    while True:
        yield from page["submit_pools"]
        if not page.get("next"):
            return
        page = session.server.get(f"{path}?{urlsplit(str(page['next'])).query}", expects="submit_pools")


#: {filter of pilots: what it means}.
PILOT_FILTERS = {
    "status": "in this status",
    "site": "of this site",
    "ce": "of this computing element",
    "queue": "of this batch queue",
    "host": "on this host",
}


def _configure_pilots(parser: ArgumentParser) -> None:
    for name, about in PILOT_FILTERS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=about)
    add_limit(parser, what="pilots")
    parser.add_argument("--summary", action="store_true", help="sum up the pilots of a time by site and CE; managers")
    parser.add_argument("--hours", type=whole_number, metavar="N", help="submitted in the last N hours; default 24")


def _pilots(options: Namespace, session: CommandSession) -> CommandOutput:
    given = {name: getattr(options, name) for name in PILOT_FILTERS}
    query = {name: value for name, value in given.items() if value is not None}
    if options.summary:
        return _summary(options, session, filters=query)
    if options.hours is not None:
        raise WrongUsageError("--hours is the time of --summary; give both.")
    found, notes = rows_within(session, "pilots/", query=query, limit=options.limit)
    names = ("id", "status", "site", "ce", "queue", "host", "submitted_at", "last_seen_at", "status_reason")
    rows = [[pilot[name] for name in names] for pilot in found]
    empty = "No pilot matches. Managers see those of their VOs, others their private ones."
    return CommandOutput(found, [Table(_PILOTS, rows, empty=empty), *notes])


def _summary(options: Namespace, session: CommandSession, *, filters: Mapping[str, str]) -> CommandOutput:
    query = {"group_by": "site,ce", **filters, **({} if options.hours is None else {"hours": str(options.hours)})}
    summary = session.server.get(f"{API_V1}pilots/summary/", query=query, expects="total")
    counts = ("submitted", "waiting", "stalled", "running", "done", "aborted", "failed", "lost", "jobs")
    rows = [
        [each["values"]["site"], each["values"]["ce"], *(each[name] for name in counts), _percent(each["efficiency"])]
        for each in summary["results"]
    ]
    if rows:
        total = summary["total"]
        rows.append(["total", "", *(total[name] for name in counts), _percent(total["efficiency"])])
    empty = "No pilot of your VOs that matches was submitted in this time."
    note = Note("EFFICIENCY: the part that got a job, of the pilots that have ended or got one.")
    return CommandOutput(summary, [Table(_SUMMARY, rows, empty=empty), *([note] if rows else [])])


# ---- shares ----------------------------------------------------------------------------------------------------------


def _configure_shares(parser: ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        help="names of groups; left out: your own, and those of the VOs that you manage",
    )
    parser.add_argument("--terms", action="store_true", help="show the terms of the correction by history")


def _shares(options: Namespace, session: CommandSession) -> CommandOutput:
    names = options.groups or _own_and_managed(session)
    shares = [
        session.server.get(f"{API_V1}groups/{quote(name, safe='')}/shares/", expects="configured") for name in names
    ]
    empty = "You are in no group, and manage no VO; name a group."
    if options.terms:
        return CommandOutput(shares, [Table(_TERMS, [_terms(each) for each in shares], empty=empty), *_legend(shares)])
    rows = [
        [
            each["group"],
            each["vo"],
            f"{each['configured']['share']:.6g}",
            _percent(each["configured"]["fraction"]),
            f"{each['in_effect']:.6g}",
            *(_percent(each["delivered"][window]["lease_time"]["fraction"]) for window in ("hour", "day", "week")),
        ]
        for each in shares
    ]
    note = Note("LAST …: the part of what the VO used that the group got, in time under lease.")
    return CommandOutput(shares, [Table(_SHARES, rows, empty=empty), *([note] if rows else [])])


def _terms(share: Record) -> list[object]:
    terms = share["corrected"]
    return [
        share["group"],
        f"{share['configured']['share']:.6g}",
        _percent(terms["expected"]),
        _percent(terms["used"]),
        *("" if terms[name] is None else f"{terms[name]:.4g}" for name in ("ratio", "factor", "normalization")),
        f"{terms['share']:.6g}",
        _percent(terms["fraction"]),
        "yes" if terms["applied"] else "no",
    ]


def _legend(shares: list[Record]) -> list[Part]:
    """Return what the terms mean."""
    if not shares:
        return []
    terms = shares[0]["corrected"]
    bounds = f"at least {terms['least_factor']:.3g} and at most {terms['most_factor']:.3g}"
    return [
        Note("CORRECTED = SHARE × FACTOR × NORMALIZATION, which keeps the sum of the VO's shares."),
        Note(f"FACTOR is RATIO = EXPECTED / USED, {bounds}; use counts half after {terms['half_life_s'] / 86400:g} d."),
    ]


def _own_and_managed(session: CommandSession) -> list[str]:
    """Return the groups of the user, and then those of the VOs that the user manages."""
    profile = session.server.get(f"{API_V1}auth/me/", expects="groups")
    names = [group["name"] for group in profile["groups"]]
    for vo in profile["managed_vos"]:
        managed = session.server.rows(f"{API_V1}groups/", query={"vo": vo, "page_size": "1000"})
        names += [group["name"] for group in managed]
    return list(dict.fromkeys(names))


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.1%}"


COMMANDS = {
    "sites": Command(_configure_sites, _sites),
    "queues": Command(_configure_queues, _queues),
    "pools": Command(_configure_pools, _pools),
    "pilots": Command(_configure_pilots, _pilots),
    "shares": Command(_configure_shares, _shares),
}
