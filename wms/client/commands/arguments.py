"""Arguments that several commands share: ids and ranges of jobs, filters, and the words of a search."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import NamedTuple

from ..errors import WrongUsageError
from ..wire.protocol import API_V1
from ..wire.units import MEGABYTES, SECONDS, in_units
from .command import CommandSession

#: Jobs that one command can name, as many as the server accepts.
MOST_JOBS = 100_000
#: Value of the filter ``owner``: all jobs that one may see.
EVERYBODY = "*"


class Filter(NamedTuple):
    """A filter of jobs."""

    #: Of the REST interface.
    parameter: str
    metavar: str
    about: str


#: {word of a search, and option: filter}; the words are those of the portal.
FILTERS: Mapping[str, Filter] = {
    "id": Filter("id", "IDS", "ids of jobs and ranges, with commas, such as 69,75-80"),
    "status": Filter("status", "STATUS", "one status, or several with commas"),
    "name": Filter("job_name", "NAME", "name; each * stands for any characters"),
    "site": Filter("site", "SITE", "site of the last match"),
    "host": Filter("host", "HOST", "host of the last match"),
    "since": Filter(
        "submitted_after", "TIME", "submitted at this time or later: 12h, 2d, 2026-06-01 (UTC), or a time of RFC 3339"
    ),
    "before": Filter("submitted_before", "TIME", "submitted before this time"),
    "exit": Filter("exit_code", "CODE", "exit code of the payload"),
    "reason": Filter("minor_status", "TEXT", "reason of the status; each * stands for any characters"),
    "cause": Filter("cause", "KEY", "cause of the failure, as `wms failures` lists it; none: unknown"),
    "group": Filter("group", "GROUP", "group in which the owner acted"),
    "owner": Filter("owner", "USER", "owner; * for all jobs that you may see; left out: your own"),
    "submission": Filter("job_group_id", "ID", "submission, whoever its owner is; of your own the beginning is enough"),
    "task-queue": Filter("task_queue", "ID", "task queue in which they wait"),
    "label": Filter("job_group", "LABEL", "label given by the owner"),
    "type": Filter("job_type", "TYPE", "job type"),
    "vo": Filter("vo", "VO", "VO"),
}
_TIMES = frozenset({"submitted_after", "submitted_before"})
_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])", re.IGNORECASE)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: The beginning of the id of a submission, as a terminal shows it.
_SHORT_ID = re.compile(r"[0-9a-f-]{4,35}", re.IGNORECASE)
#: Submissions among which a short id is looked up.
_MOST_SUBMISSIONS = 5000
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBER = re.compile(r"[0-9]{1,18}")
_KEYED = re.compile(r"([a-z][a-z_-]*):(.*)", re.IGNORECASE | re.DOTALL)


def whole_number(text: str) -> int:
    """Return a number of a command line."""
    # NB: for a ValueError the parser would print the name of this function.
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number; give one such as 86400.")
    return int(text)


def seconds(text: str) -> int:
    """Return a time of a command line in seconds, such as 86400, 24h, or 90m."""
    return _with_unit(text, SECONDS, example="86400 (seconds) or 24h")


def megabytes(text: str) -> int:
    """Return a size of a command line in megabytes, such as 2000 or 2GB."""
    return _with_unit(text, MEGABYTES, example="2000 (megabytes) or 2GB")


def _with_unit(text: str, units: Mapping[str, int], *, example: str) -> int:
    number = in_units(text, units)
    if number is None:
        raise ArgumentTypeError(f"{text!r} is not understood; give a whole number such as {example}.")
    return number


def job_id(text: str) -> int:
    """Return the id of a job of a command line."""
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not the id of a job; give its number, such as 69.")
    return int(text)


def id_range(text: str) -> range:
    """Return the ids that a text such as ``5`` or ``7-9`` of a command line names."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not the id of a job; give its number, such as 69.")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ArgumentTypeError(f"{text!r} ends before it begins; write {last}-{first}.")
    return range(first, last + 1)


def ids_in(ranges: Iterable[range]) -> list[int]:
    """Return the ids in the ranges, each once, in their order.

    Raises:
        WrongUsageError: they are too many.
    """
    ids: dict[int, None] = {}
    for each in ranges:
        if len(ids) + len(each) > MOST_JOBS:
            raise WrongUsageError(f"A command takes at most {MOST_JOBS} jobs; name fewer, or use a filter.")
        ids.update(dict.fromkeys(each))
    return list(ids)


def add_filters(parser: ArgumentParser, *, but_for: Iterable[str] = ()) -> None:
    """Add an option for each filter of jobs but some."""
    group = parser.add_argument_group("filters of jobs", "All of them must hold.")
    for name, each in ((name, each) for name, each in FILTERS.items() if name not in but_for):
        group.add_argument(f"--{name}", metavar=each.metavar, dest=f"filter_{each.parameter}", help=each.about)


def filters_in(options: Namespace, words: Iterable[str], *, now: datetime | None = None) -> dict[str, str]:
    """Return {parameter of the REST interface: value} of options and of words such as ``status:failed``.

    A word that is a number is an id; other words without a key are parts of the name.

    Raises:
        WrongUsageError: a word has no meaning.
    """
    now = now or datetime.now(timezone.utc)
    given = {each.parameter: getattr(options, f"filter_{each.parameter}", None) for each in FILTERS.values()}
    found = {parameter: value for parameter, value in given.items() if value is not None}
    bare = []
    for word in words:
        keyed = _KEYED.fullmatch(word)
        if keyed is None and _NUMBER.fullmatch(word) and "id" not in found:
            found["id"] = word
            continue
        if keyed is None:
            bare.append(word)
            continue
        each = FILTERS.get(keyed[1].lower())
        if each is None:
            raise WrongUsageError(f'There is no filter "{keyed[1]}"; the filters are {", ".join(FILTERS)}.')
        if found.get(each.parameter) is not None:
            raise WrongUsageError(f'"{keyed[1]}" is given twice; give it once.')
        found[each.parameter] = keyed[2]
    if bare:
        if "job_name" in found:
            raise WrongUsageError(
                f'"{" ".join(bare)}" is a name, but the name is given already; leave one of them out.'
            )
        found["job_name"] = bare[0] if len(bare) == 1 and "*" in bare[0] else f"*{'*'.join(bare)}*"
    return {name: rfc3339(value, now=now) if name in _TIMES else value for name, value in found.items()}


def of_owner(filters: Mapping[str, str], session: CommandSession) -> dict[str, str]:
    """Return the filters with an owner: the user, unless an owner or one submission is named; none for EVERYBODY.

    Raises:
        WrongUsageError: the short id of a submission has no meaning.
    """
    owner = filters.get("owner")
    if "job_group_id" in filters:
        filters = {**filters, "job_group_id": submission_id(filters["job_group_id"], session)}
    if owner == EVERYBODY:
        return {name: value for name, value in filters.items() if name != "owner"}
    if owner is not None or "job_group_id" in filters:
        return dict(filters)
    return {**filters, "owner": session.username}


def submission_id(text: str, session: CommandSession) -> str:
    """Return the whole id of a submission; its beginning is enough for one's own newest ones.

    Raises:
        WrongUsageError: it is none, or the beginning of several.
    """
    if _UUID.fullmatch(text):
        return text.lower()
    if not _SHORT_ID.fullmatch(text):
        raise WrongUsageError(f'"{text}" is not the id of a submission; `wms submissions` lists yours.')
    rows = islice(session.server.rows(f"{API_V1}submissions/", query={"page_size": "1000"}), _MOST_SUBMISSIONS)
    found = [row["job_group_id"] for row in rows if row["job_group_id"].startswith(text.lower())]
    if len(found) != 1:
        number = "None" if not found else f"{len(found)}"
        raise WrongUsageError(f'{number} of your submissions begin with "{text}"; give the whole id.')
    return str(found[0])


def rfc3339(text: str, *, now: datetime) -> str:
    """Return a duration before *now*, or a date or time (of UTC, if it names no zone), in RFC 3339."""
    try:
        ago = _AGO.fullmatch(text)
        if ago:
            at = now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
        else:
            at = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
            at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
        return at.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError) as error:
        raise WrongUsageError(f'"{text}" is no time; write 12h, 2d, 2026-06-01 or 2026-06-01T12:00:00Z.') from error
