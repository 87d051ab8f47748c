"""Actions of `wms admin` on what jobs get: states of places, shares, limits, throttles and pauses."""

from __future__ import annotations

import math
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..connection import Record
from ..errors import WrongUsageError
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..terminal.text import moment, plain
from .admin_changes import (
    AdminAction,
    add_confirm,
    add_end,
    add_reason,
    address_of,
    address_of_place,
    delete,
    end_in,
    reason_in,
    send_confirmed,
    tried,
)
from .arguments import seconds, whole_number
from .command import CommandOutput, CommandSession

_PARTS = (
    TableColumn("GROUP", importance=5),
    TableColumn("SHARE", ColumnKind.NUMBER, importance=4),
    TableColumn("OF VO", ColumnKind.NUMBER, importance=3),
    TableColumn("IN EFFECT", ColumnKind.NUMBER, importance=2),
    TableColumn("LAST DAY", ColumnKind.NUMBER, importance=1),
)
_LIMITS = (
    TableColumn("LIMIT", ColumnKind.NUMBER, importance=4),
    TableColumn("ON JOBS OF", importance=3),
    TableColumn("ROOM", importance=2),
)
#: {action: state}.
_STATES = {"ban": "banned", "drain": "draining", "allow": "active"}
#: {field of the scope of a limit: what jobs are of it, or at it}.
_SCOPE = {
    "vo": "jobs of this VO",
    "site": "jobs at this site",
    "ce": "jobs at this computing element of the site",
    "group": "jobs of this group",
    "user": "jobs of this user",
    "job_type": "jobs of this type",
}
_POLICIES = ("matches", "level0", "level1", "level2", "custom")
#: {maximum of a throttle: what is counted}.
_MAXIMA = {
    "max_matches": "matches since the measurement",
    "max_submitting_jobs": "jobs that the gateway is submitting",
    "max_submitting_and_output_gathering_jobs": "jobs that it is submitting, or whose output it is gathering",
    "max_jobs": "jobs at the site",
}
_SETTINGS = ("policy", *_MAXIMA, "requirements", "when_expired", "advertisement_s")


# ---- States ----------------------------------------------------------------------------------------------------------


def _configure_place(parser: ArgumentParser) -> None:
    parser.add_argument("place", metavar="SITE[/CE[/QUEUE]]", help="site, computing element or queue")


def _configure_state(parser: ArgumentParser) -> None:
    _configure_place(parser)
    add_reason(parser)
    add_end(parser)


def _set_state(options: Namespace, session: CommandSession) -> CommandOutput:
    body = {"state": _STATES[options.action], "dry_run": options.dry_run}
    if options.action != "allow":
        body |= {"reason": options.because, **end_in(options)}
    answer = session.server.put(address_of_place(options.place, "state"), body, expects="state")
    until = f" until {moment(answer['until'])}" if answer["until"] else ""
    place = plain(answer["place"])
    said = f"{place[0].upper()}{place[1:]} is {plain(answer['state'])}{until}. {plain(answer['consequence'])}".rstrip()
    return CommandOutput(answer, [tried(options, said)])


# ---- Shares ----------------------------------------------------------------------------------------------------------


def _configure_priority(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="name of the group")
    parser.add_argument("share", nargs="?", type=_number, metavar="SHARE", help="its new share; left out: show shares")
    add_reason(parser, required=False)
    add_confirm(parser)


def _priority(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("groups", options.group, "priority")
    if options.share is None:
        return _shown(session.server.get(address, expects="groups"))
    if options.because is None:
        raise WrongUsageError("Give the reason of the change by --because: the history keeps it.")
    body = {"priority": options.share, "reason": options.because, "dry_run": options.dry_run}
    answer = send_confirmed(lambda sent: session.server.put(address, sent, expects="groups"), body, options)
    sentence = f"{plain(answer['group'])} has the share {answer['priority']:.12g}; it takes effect within a second."
    output = _shown(answer)
    return output._replace(parts=[tried(options, sentence), *output.parts])


def _shown(answer: Record) -> CommandOutput:
    rows = [
        [
            each["group"],
            f"{each['priority']:.12g}",
            *(f"{each[name]:.1%}" for name in ("configured", "in_effect")),
            "" if each["delivered"] is None else f"{each['delivered']:.1%}",
        ]
        for each in answer["groups"]
    ]
    return CommandOutput(answer, [Table(_PARTS, rows)], rows="groups")


def _number(text: str) -> float:
    """Return a number of a command line."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentTypeError(f"{text!r} is not a number; give one such as 1000.")
    return number


# ---- Limits ----------------------------------------------------------------------------------------------------------


class _Bound(NamedTuple):
    """A bound of a limit, as an option."""

    option: str
    read: Callable[[str], object]
    metavar: str
    about: str


#: {field of a limit: its option}.
_BOUNDS = {
    "running": _Bound("--running", whole_number, "N", "jobs held by pilots at a time"),
    "waiting": _Bound("--waiting", whole_number, "N", "jobs in queues at a time"),
    "cpu_s_per_day": _Bound(
        "--cpu-per-day", seconds, "TIME", "CPU time that jobs report in 24 hours, such as 86400 (seconds) or 24h"
    ),
    "delay_s": _Bound("--delay", _number, "S", "mean seconds between two matches"),
    "burst": _Bound("--burst", whole_number, "N", "matches at once after a pause"),
}


def _or_none(read: Callable[[str], object]) -> Callable[[str], object]:
    """Return the reader of a value that may be removed by the word none."""
    return lambda text: None if text == "none" else read(text)


def _configure_limit(parser: ArgumentParser) -> None:
    about = "id of a limit to change; bounds that are not given stay as they are"
    parser.add_argument("limit", nargs="?", type=whole_number, metavar="ID", help=about)
    for name, about in _SCOPE.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=name.upper(), help=about)
    for name, bound in _BOUNDS.items():
        about = f"{bound.about}; none: no such bound"
        kind = _or_none(bound.read)
        parser.add_argument(bound.option, dest=name, type=kind, metavar=bound.metavar, default=SUPPRESS, help=about)
    parser.add_argument("--delete", action="store_true", help="delete the limit")
    add_reason(parser, required=False)
    add_confirm(parser)


def _limit(options: Namespace, session: CommandSession) -> CommandOutput:
    scope = {name: getattr(options, name) for name in _SCOPE if getattr(options, name) is not None}
    bounds = {name: getattr(options, name) for name in _BOUNDS if name in options}
    if options.limit is None and not options.delete:
        return _add_or_list(scope, bounds, options, session)
    if scope or options.limit is None or options.delete == bool(bounds):
        raise WrongUsageError("Name a limit by its id, and give its bounds or --delete; its jobs stay the same.")
    address = address_of("limits", str(options.limit))
    if options.delete:
        limit = session.server.get(address, expects="scope")
        delete(session, address, options)
        return CommandOutput(
            limit, [tried(options, f"Limit {plain(limit['id'])} on {plain(limit['scope'])} is deleted.")]
        )
    if bounds.get("delay_s", 0) is None:
        bounds.setdefault("burst", None)
    limit = session.server.get(address, expects="room")
    # What is not named stays as it is: the server takes a bound that is left out as none.
    body = {**{name: limit[name] for name in _BOUNDS}, **bounds, "dry_run": options.dry_run, **reason_in(options)}
    answer = send_confirmed(lambda sent: session.server.put(address, sent, expects="room"), body, options)
    return CommandOutput(answer, [tried(options, _limit_in_words(answer))])


def _add_or_list(
    scope: Mapping[str, str], bounds: Mapping[str, object], options: Namespace, session: CommandSession
) -> CommandOutput:
    address = address_of("limits")
    if not bounds:
        found = list(session.server.rows(address, query={**scope, "page_size": "1000"}))
        rows = [[each["id"], each["scope"], each["room"]] for each in found]
        return CommandOutput(found, [Table(_LIMITS, rows, empty="There is no limit that you may change.")])
    body = {**scope, **bounds, "dry_run": options.dry_run, **reason_in(options)}
    send = session.server.post
    answer = send_confirmed(lambda sent: send(address, sent, expects="room", repeatable=True), body, options)
    return CommandOutput(answer, [tried(options, _limit_in_words(answer))])


def _limit_in_words(limit: Record) -> str:
    return f"Limit {plain(limit['id'])} on {plain(limit['scope'])}: {plain(limit['room'])}."


# ---- Throttles -------------------------------------------------------------------------------------------------------


def _configure_throttle(parser: ArgumentParser) -> None:
    parser.add_argument("site", metavar="SITE", help="name of the site; without options: show its throttle")
    policy = parser.add_mutually_exclusive_group()
    about = f"what is limited: {', '.join(_POLICIES)}"
    policy.add_argument("--policy", choices=_POLICIES, metavar="POLICY", default=SUPPRESS, help=about)
    about = "no throttle; its other settings are kept"
    policy.add_argument("--none", dest="policy", action="store_const", const="none", default=SUPPRESS, help=about)
    for name, about in _MAXIMA.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(
            option, type=_or_none(whole_number), metavar="N", default=SUPPRESS, help=f"{about}; none: no maximum"
        )
    about = "ClassAd expression of the policy custom"
    parser.add_argument("--requirements", metavar="EXPRESSION", default=SUPPRESS, help=about)
    about = "after the last advertisement has expired: count, the server counts its jobs; closed, no jobs start"
    parser.add_argument(
        "--when-expired", choices=("count", "closed"), metavar="count|closed", default=SUPPRESS, help=about
    )
    about = "time between two advertisements, such as 300 (seconds) or 5m"
    parser.add_argument("--advertisement-s", type=seconds, metavar="TIME", default=SUPPRESS, help=about)
    add_reason(parser, required=False)
    add_confirm(parser)


def _throttle(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("sites", options.site, "throttle")
    throttle = session.server.get(address, expects="when_expired")
    changes = {name: getattr(options, name) for name in _SETTINGS if name in options}
    if not changes:
        return CommandOutput(throttle, [_facts_of(throttle)])
    body = {**{name: throttle[name] for name in _SETTINGS}, **changes, "dry_run": options.dry_run, **reason_in(options)}
    answer = send_confirmed(lambda sent: session.server.put(address, sent, expects="when_expired"), body, options)
    policy = "no throttle" if answer["now"] is None else f"the throttle {plain(answer['policy'])}"
    return CommandOutput(answer, [tried(options, f"{plain(answer['site'])} has {policy}."), _facts_of(answer)])


def _facts_of(throttle: Record) -> Facts:
    settings = [(name, throttle[name]) for name in ("site", *_SETTINGS)]
    now = throttle["now"]
    if now is None:
        return Facts(settings)
    names = ("why_closed", "room", "cur_matches", "matched", "advertised_at", "expires_at")
    return Facts(
        [*settings, ("status", "open" if now["accepting"] else "closed"), *((name, now[name]) for name in names)]
    )


# ---- Pauses ----------------------------------------------------------------------------------------------------------


def _configure_pause(parser: ArgumentParser) -> None:
    parser.add_argument("vo", nargs="?", metavar="VO", help="name of the VO; or --all")
    parser.add_argument("--all", action="store_true", help="of all VOs at once, beside pauses of their own; operators")
    add_reason(parser, required=False)
    add_end(parser)
    parser.add_argument("--end", action="store_true", help="let matching go on")


def _pause(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.all == (options.vo is not None):
        raise WrongUsageError("Name the VO, or give --all for all of them; one of the two.")
    address = address_of("pause") if options.all else address_of("vos", options.vo, "pause")
    end, whose = end_in(options), "all VOs" if options.all else plain(options.vo)
    if options.end and (end or options.because is not None):
        raise WrongUsageError("Pause matching, or end a pause by --end; not both.")
    if options.end:
        delete(session, address, options)
        sentence = f"Matching for {whose} goes on{_OWN_PAUSES if options.all else ''}."
        return CommandOutput({"vo": options.vo, "paused": False}, [tried(options, sentence)])
    if not end and options.because is None:
        pause = session.server.get(address, expects="paused")
        facts = [(name, value) for name, value in pause.items() if name not in {"paused", "changed"}]
        return CommandOutput(pause, [Facts([("status", "paused" if pause["paused"] else "active"), *facts])])
    if not end or options.because is None:
        raise WrongUsageError("A pause has a reason and an end: give --because, and --for or --until.")
    body = {**end, "reason": options.because, "dry_run": options.dry_run}
    pause = session.server.put(address, body, expects="paused")
    sentence = f"Matching for {whose} is paused until {moment(pause['until'])}; running jobs go on."
    numbers = f"{plain(pause['waiting_jobs'])} jobs wait, {plain(pause['running_jobs'])} run."
    return CommandOutput(pause, [f"{tried(options, sentence)} {numbers}"])


#: What the end of a pause of all VOs leaves.
_OWN_PAUSES = ", but where a VO has a pause of its own"


ACTIONS: Mapping[str, AdminAction] = {
    "ban": AdminAction("let a place take no jobs and no pilots", _configure_state, _set_state),
    "drain": AdminAction("let running jobs of a place go on, and no new ones start", _configure_state, _set_state),
    "allow": AdminAction("let a place take jobs and pilots again", _configure_place, _set_state),
    "priority": AdminAction("show the shares of a VO's groups, or change that of one", _configure_priority, _priority),
    "limit": AdminAction("list limits with their room; add, change or delete one", _configure_limit, _limit),
    "throttle": AdminAction("show the throttle of a site, or change it", _configure_throttle, _throttle),
    "pause": AdminAction("pause matching for a VO or for all, or let it go on", _configure_pause, _pause),
}
