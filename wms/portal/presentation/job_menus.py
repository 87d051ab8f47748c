"""Menus beside the search box of the list of jobs, and the keys that the box knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries.breakdown import Property
from wms.portal.search import EVERYBODY

#: Durations in the menu of times of submission.
_SINCE: Final = (
    ("1h", "last hour"),
    ("12h", "last 12 hours"),
    ("1d", "last day"),
    ("7d", "last week"),
    ("30d", "last 30 days"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value of a menu; an empty one: not filtered by it."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """One menu: a field of the form beside the search box."""

    name: str
    label: str
    options: Sequence[Option]


@dataclass(frozen=True, slots=True, kw_only=True)
class Menus:
    """The menus; several statuses can be chosen, and one value of each other menu."""

    statuses: Sequence[Option]
    chosen_statuses: int
    others: Sequence[Menu]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTo:
    """A link to the same list in another order, or with another side table."""

    label: str
    query: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHelp:
    """One key of the search box."""

    example: str
    meaning: str


KEYS_HELP: Final[Sequence[KeyHelp]] = tuple(
    KeyHelp(example=example, meaning=meaning)
    for example, meaning in (
        ("71", "the job with this id, at once"),
        ("scan", "names that contain it, as name:*scan*"),
        ("name:scan-*", "name; each * stands for any characters"),
        ("status:failed,stalled", "any of these statuses"),
        ("site:SITE.example.org", "site of the last match"),
        ("host:wn1.cern.ch", "host of the last match"),
        ("since:2d", "submitted in the last 2 days; also 12h, 30m, 2026-06-01"),
        ("before:1d", "submitted more than a day ago"),
        ("exit:2", "exit code of the payload"),
        ('reason:"lost *"', "reason of the status"),
        ("group:my_group", "group in which the owner acted"),
        ("owner:*", "all jobs that you may see; owner:NAME for those of one user"),
        ("submission:UUID", "all jobs of one submission"),
        ("task-queue:12", "jobs that wait in this task queue"),
        ("label:calibration", "label given by the owner (job group)"),
        ("type:User", "type of the job"),
        ("vo:my_vo", "VO of the group"),
        ("id:71", "the list with this job only"),
    )
)


def menus_of(words: Mapping[str, str], *, sites: Iterable[str], groups: Iterable[str]) -> Menus:
    """Return the menus.

    Args:
        words: {parameter of the filters: value as written}.
        sites: names of the sites that the reader may see.
        groups: names of the reader's groups.
    """
    statuses = words.get("status", "").split(",")
    return Menus(
        statuses=[Option(value=status, label=status, is_chosen=status in statuses) for status in JobStatus],
        chosen_statuses=len([*filter(None, statuses)]),
        others=(
            _menu("site", "Site", words.get("site", ""), [("", "any"), *((name, name) for name in sorted(sites))]),
            _menu("since", "Submitted", words.get("submitted_after", ""), [("", "any time"), *_SINCE]),
            _menu("group", "Group", words.get("group", ""), [("", "any"), *((name, name) for name in sorted(groups))]),
            _menu("whose", "Whose", words.get("owner", ""), [("", "mine"), (EVERYBODY, "all that I may see")]),
        ),
    )


def _menu(name: str, label: str, chosen: str, options: Sequence[tuple[str, str]]) -> Menu:
    """Return a menu that also has the chosen value, if it is none of the options."""
    further = [] if chosen in {value for value, _ in options} else [(chosen, chosen)]
    return Menu(
        name=name,
        label=label,
        options=[Option(value=value, label=text, is_chosen=value == chosen) for value, text in [*options, *further]],
    )


def side_tabs_of(current: Property, *, link: Callable[[str], str]) -> Sequence[LinkTo]:
    """Return the links to the side tables; *link* returns the query string of a property."""
    return tuple(
        LinkTo(label=each.capitalize(), query=link(each), is_current=each is current)
        for each in (Property.SITE, Property.REASON, Property.HOST, Property.SUBMISSION)
    )
