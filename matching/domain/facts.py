"""Facts about why a job waits and what would help: their kinds, with the sentence of each, and their values."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from wms.kernel.names import listed

_MINUTE: Final = "%Y-%m-%d %H:%M %Z"
_SECOND: Final = "%Y-%m-%d %H:%M:%S %Z"


@dataclass(frozen=True, slots=True)
class WaitFact:
    """One fact: its kind, which has the sentence, and the values of that sentence."""

    kind: Enum
    values: tuple[tuple[str, object], ...] = ()


def fact(kind: Enum, /, **values: object) -> WaitFact:
    """Return a fact; equal facts are equal."""
    return WaitFact(kind, tuple(values.items()))


class WaitReason(Enum):
    """Facts about why a job waits; the value is the sentence, without its end."""

    # The job itself.
    SUSPENDED = "its owner {owner} is suspended: no pilot gets the jobs of a suspended user"
    LEFT_THE_GROUP = (
        "{owner} is no longer a member of {group}, and only jobs of members are matched: rejoin the group (a manager "
        "of {vo} can add {owner}), or submit the job again in another group"
    )
    NO_SHARE = "its group {group} has priority 0; a manager of {vo} can change that"
    # Given back by a pilot (ADR 33).
    DELAYED = f"it was given back by a pilot, and no pilot gets it before {{until:{_SECOND}}}"
    AVOIDED = f"this queue gave it back; until {{until:{_SECOND}}} other queues come first"
    GOES_ELSEWHERE = f"until {{until:{_SECOND}}} it goes elsewhere than {{places}} first, which gave it back"
    # Pilots.
    DIRECTORS_NEVER_RAN = "the directors, which send pilots, have not run yet"
    DIRECTORS_STAND_STILL = f"the directors, which send pilots, have not run since {{since:{_MINUTE}}}"
    NO_BACKEND = "pilots are sent to no computing element of the type {type}, as {ce} is"
    OTHER_MIDDLEWARE = (
        "pilots for these jobs are sent only to computing elements of the grid middleware {named}, and {ce} is of "
        "{middleware}"
    )
    UNKNOWN_MIDDLEWARE = (
        "pilots for these jobs are sent only to computing elements of the grid middleware {named}, and no site that "
        "serves {vo} has one"
    )
    NO_DIRECTOR = "no director sends pilots to {site}{but}"
    BUT_FOR_OTHERS = " for such jobs: {directors}"
    ONLY_JOB_TYPES = "{director} only for jobs of the type{s} {job_types}"
    ONLY_SETUP = "{director} only for jobs of the setup {setup}"
    ONLY_REQUIRED = "{director} only for jobs that meet its requirements{names}"
    ON_NAMES = " on {names}"
    SEVERAL_FAIL = "{number} computing elements fail ({ces}), the first with: {trouble}{again}"
    FAILS = "computing element {ce} fails: {trouble}{again}"
    ASKED_AGAIN = f"; it is queried again at {{at:{_MINUTE}}}"
    STARTED_BY_SITE = (
        "the site itself starts the pilots of queue {queue} of {ce}, and none that could take such jobs is there"
    )
    NOT_REPORTED = "computing element {ce} has not reported yet how many pilots it can take"
    PILOTS_FAILED = (
        f"the last pilots at computing element {{ce}} all failed; others are sent from {{after:{_MINUTE}}} on"
    )
    NOT_QUERIED = f"computing element {{ce}} has not been queried since {{since:{_MINUTE}}}"
    NO_FREE_SLOT = f"computing element {{ce}} had no free slot when it was last queried, at {{at:{_MINUTE}}}"
    SLOTS_TAKEN = "the free slots of computing element {ce} are taken by other pilots that are on their way"
    ALL_PILOTS = "queue {queue} of {ce} has all the pilots that it may have ({most})"
    ALL_WAITING_PILOTS = "in queue {queue} of {ce} as many pilots wait as may ({most})"
    PILOTS_STALLED = (
        f"the last pilots in queue {{queue}} of {{ce}} did not start in time; the next is sent at {{at:{_MINUTE}}}"
    )
    PILOTS_FOUND_NO_JOB = "nearly all of the last pilots in queue {queue} of {ce} found no job that they could run"
    LAST_GOT_NO_JOB = f"the last pilot there, until {{at:{_MINUTE}}}, was given no job{{why}}"
    NONE_LEFT = ": none was left after the condition {condition}"
    LAST_ENDED = f"the last pilot there has {{how}} at {{at:{_MINUTE}}}{{why}}"
    BECAUSE = ": {reason}"
    BLACK_HOLE = f"1 node there, {{hosts}}, gets no jobs until {{until:{_MINUTE}}} because jobs fail there at once"
    BLACK_HOLES = (
        f"{{number}} nodes there, {{hosts}}, get no jobs until {{until:{_MINUTE}}} because jobs fail there at once"
    )


class Change(Enum):
    """Changes of a job that may help, as beginnings of sentences; {s} is there if several are named."""

    CPU_TIME = "with a CPU time of {value} instead of {own}"
    NO_AMOUNT = "without a requirement of {noun}"
    LESS_OF_AMOUNT = "with {value} of {noun} instead of {own}"
    FEWER = "with {value} instead of {own}"
    ALTERNATIVE = "with the {kind} {name} as an alternative"
    NO_NAMES = "without a required {kind}"
    FEWER_NAMES = "without the {kind}{s} {names}"
    REPLICAS = "with replicas of its input data at {site}"
    ANOTHER_SITE = "with {site} among its sites"
    ANY_SITE = "without a list of sites"
    NOT_BANNED = "without {site} among its banned sites"
    NONE_BANNED = "without banned sites"
    MORE_TAGS = "with the tag{s} {names}"
    OTHER_SETUP = "with the setup {setup} instead of {own}"
    NO_POOLS = "without its submit pools"
    LOWER_REQUIREMENT = "with {name} = {value} instead of {own}"
    NO_CONTAINER = "without a container"


def in_words(fact: object) -> str:
    """Return a fact in words; a text, which has come from elsewhere, as it is."""
    if not isinstance(fact, WaitFact):
        return str(fact)
    values = dict(fact.values)
    several = any(isinstance(value, tuple) and len(value) > 1 for value in values.values())
    shown = {name: _shown(value) for name, value in values.items()}
    return str(fact.kind.value).format(**shown, s="s" if several else "")


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return listed(value)
    return in_words(value) if isinstance(value, WaitFact) else value
