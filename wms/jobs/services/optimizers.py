"""The steps that every job passes on its arrival: sanity, input data, requirements; then its task queue (DESIGN §3.1).

Each step looks at all jobs of a request at once, so that ten thousand alike cost little more than one.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from resources.domain.requirements import check
from resources.queries import (
    known_ces,
    known_elements,
    known_platforms,
    known_sites,
    requirement_kinds,
    requirement_names,
    requirement_units,
)
from taskqueues.services import submit_pools
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.data import is_own, lfn_of_output, narrowed
from wms.jobs.domain.description import InvalidDescriptionError, JobDescription
from wms.jobs.domain.doubts import JUDGED_BY, Doubtful, InputFile, doubts_about, quotes_are_closed
from wms.jobs.domain.jdl import field_hint
from wms.jobs.domain.request import MAX_WRONG_FIELDS, WantedJob
from wms.jobs.queries import own_directories, surroundings_of
from wms.jobs.services import sandboxes
from wms.jobs.services.input_data import Located
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.db import transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean, listed, several_in_one

MAX_WARNINGS: Final = 50
#: Of one field of a job; the first ones tell the story.
MAX_SENTENCES: Final = 5
#: The nearest name is looked for so often: each look compares with all known names.
MAX_HINTS: Final = 20
#: The eligible queues of each are looked up while the request waits.
MAX_REQUIREMENT_SETS: Final = 100
#: Of all jobs of a request; they are looked up, and for each job kept in an index, while the request waits.
MAX_INPUT_FILES: Final = 200_000


@dataclass(slots=True, kw_only=True)
class Arrival:
    """The jobs of one request on their way in, and what the steps found out about them."""

    owner: User
    group: Group
    wanted: tuple[WantedJob, ...]
    now: datetime
    errors: dict[str, list[str]] = field(default_factory=dict)
    #: Ordered, each once: the positions in ``wanted`` of the jobs that it is about; none: it is about the request.
    warnings: dict[str, Sequence[int]] = field(default_factory=dict)
    #: Warnings beyond the first MAX_WARNINGS.
    left_out: int = 0
    #: By the references as a job gives them.
    input_sandboxes: dict[tuple[str, ...], tuple[NamedSandbox, ...]] = field(default_factory=dict)
    #: Sites that hold all of the files, by the files as a job gives them.
    input_sites: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    #: Id of the submit pool, by ``requirements_key``.
    pools: dict[str, str] = field(default_factory=dict)
    #: Nearest known names that were looked for, as sentences, by noun and name.
    hints: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def vo(self) -> VO:
        """The group's."""
        return self.group.vo

    @property
    def refused_enough(self) -> bool:
        """Whether so much is wrong that more need not be said."""
        return len(self.errors) >= MAX_WRONG_FIELDS

    def refuse(self, wanted: WantedJob, name: str, sentence: str) -> None:
        """Note that a field of a job is wrong."""
        sentences = self.errors.setdefault(f"{wanted.path}{name}", [])
        if sentence not in sentences and len(sentences) < MAX_SENTENCES:
            sentences.append(sentence)

    def hint(self, noun: str, name: str, *, known: Collection[str]) -> str:
        """Return a sentence that names the known name nearest to *name*, or nothing when too much is wrong."""
        if (noun, name) not in self.hints:
            if len(self.hints) >= MAX_HINTS:
                return ""
            self.hints[noun, name] = did_you_mean(name, sorted(known))
        return self.hints[noun, name]

    def warn(self, sentence: str, *, of: Sequence[int] = ()) -> None:
        """Note what the submitter should know though the job is accepted."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings[sentence] = of
        else:
            self.left_out += 1

    def values(self, name: str) -> frozenset[str]:
        """Return every name that any job lists in a field."""
        lists = {getattr(wanted.description, name) for wanted in self.wanted}
        return frozenset(value for values in lists for value in values)


@transaction_required
def optimize(arrival: Arrival) -> None:
    """Pass the jobs through every step.

    Raises:
        InvalidDescriptionError: with the errors of all jobs that the first failing step found.
    """
    for step in (_sanity, _input_data, _requirements):
        step(arrival)
        if arrival.errors:
            raise InvalidDescriptionError(arrival.errors)


def requirements_key(description: JobDescription) -> str:
    """Return a text that is the same for the same requirements; empty without any."""
    # NB: the pairs themselves will not do: to Python 1, 1.0 and True are one key.
    return json.dumps(description.requirements) if description.requirements else ""


# ---- Sanity ----------------------------------------------------------------------------------------------------------

#: Lists of names that must exist: a mistyped one would wait for ever.
_MUST_EXIST: Final[Mapping[str, tuple[str, Callable[[VO], frozenset[str]]]]] = MappingProxyType(
    {
        "sites": ("site", known_sites),
        "banned_sites": ("site", known_sites),
        "grid_ces": ("computing element", known_ces),
        "platforms": ("platform", lambda _: known_platforms()),
    }
)


def _sanity(arrival: Arrival) -> None:
    for name, (noun, known) in _MUST_EXIST.items():
        asked = arrival.values(name)
        if asked:
            _refuse_unknown(arrival, name, noun=noun, asked=asked, known=known(arrival.vo))
    _check_setups(arrival)
    _check_input_sandboxes(arrival)
    _check_output_data(arrival)
    _check_stall_windows(arrival)
    _warn_of_doubts(arrival)
    if pools := arrival.values("submit_pools"):
        submit_pools.keep_named(pools, vo=arrival.vo, now=arrival.now)


def _refuse_unknown(arrival: Arrival, name: str, *, noun: str, asked: frozenset[str], known: frozenset[str]) -> None:
    unknown = asked - known
    for wanted in arrival.wanted if unknown else ():
        for value in getattr(wanted.description, name):
            if value in unknown and not arrival.refused_enough:
                hint = several_in_one(value) or arrival.hint(noun, value, known=known)
                arrival.refuse(wanted, name, f'No {noun} of the VO {arrival.vo} is called "{value}".{hint}')


def _check_setups(arrival: Arrival) -> None:
    known = arrival.vo.setups
    for wanted in arrival.wanted:
        setup = wanted.description.setup
        if setup is not None and setup not in known:
            hint = arrival.hint("setup", setup, known=known)
            arrival.refuse(wanted, "setup", f'The VO {arrival.vo} has no setup "{setup}".{hint}')


def _check_input_sandboxes(arrival: Arrival) -> None:
    references = arrival.values("input_sandbox")
    if not references:
        return
    nameable = sandboxes.held(sandboxes.nameable(references, owner=arrival.owner, group=arrival.group))
    for wanted in arrival.wanted:
        named = wanted.description.input_sandbox
        if named in arrival.input_sandboxes or arrival.refused_enough:
            continue
        try:
            arrival.input_sandboxes[named] = sandboxes.resolve(
                named, owner=arrival.owner, group=arrival.group, known=nameable
            )
        except sandboxes.UnusableSandboxError as error:
            _refuse_as(arrival, wanted, error)


def _check_output_data(arrival: Arrival) -> None:
    asked = {wanted.description.output_se for wanted in arrival.wanted} - {None}
    known = known_elements(arrival.vo) if asked else frozenset()
    lfns_of = {files: tuple(filter(None, map(lfn_of_output, files))) for files in _output_lists(arrival)}
    placed = any(lfns_of.values()) or any(wanted.description.output_path for wanted in arrival.wanted)
    own = own_directories(arrival.owner, group=arrival.group, vo=arrival.vo) if placed else ()
    for wanted in arrival.wanted:
        element, path = wanted.description.output_se, wanted.description.output_path
        if element is not None and element not in known and not arrival.refused_enough:
            hint = arrival.hint("storage element", element, known=known)
            sentence = f'No storage element of the VO {arrival.vo} is called "{element}".{hint}'
            arrival.refuse(wanted, "output_se", sentence)
        if path and not is_own(path, directories=own) and not arrival.refused_enough:
            sentence = f"output_path must be below {' or '.join(own)}: other directories are not yours to write to."
            arrival.refuse(wanted, "output_path", sentence)
        for lfn in lfns_of[wanted.description.output_data]:
            if not is_own(lfn.rpartition("/")[0], directories=own) and not arrival.refused_enough:
                sentence = f"LFN:{lfn} must be below {' or '.join(own)}: other directories are not yours to write to."
                arrival.refuse(wanted, "output_data", sentence)


def _output_lists(arrival: Arrival) -> frozenset[tuple[str, ...]]:
    return frozenset(wanted.description.output_data for wanted in arrival.wanted)


def _check_stall_windows(arrival: Arrival) -> None:
    longest_s = arrival.vo.longest_stalled_s
    for wanted in arrival.wanted if longest_s else ():
        asked_s = wanted.description.stalled_s
        if asked_s is not None and not 0 < asked_s <= longest_s and not arrival.refused_enough:
            sentence = f"The VO {arrival.vo} allows a stalled_s of at most {longest_s}, not {asked_s}"
            arrival.refuse(wanted, "stalled_s", sentence + ("." if asked_s else ", which would be none."))


def _warn_of_doubts(arrival: Arrival) -> None:
    """Warn of descriptions that will hardly work as they are meant; alike ones are looked at once."""
    distinct: dict[tuple[object, ...], Doubtful] = {}
    alike: dict[tuple[object, ...], list[int]] = {}
    for position, wanted in enumerate(arrival.wanted):
        description = {name: getattr(wanted.description, name) for name in JUDGED_BY}
        if quotes_are_closed(description["arguments"]):
            description["arguments"] = ""
        about = (*description.values(), wanted.description.input_sandbox)
        alike.setdefault(about, []).append(position)
        if about not in distinct:
            named = arrival.input_sandboxes.get(wanted.description.input_sandbox, ())
            files = [InputFile(each.file_name, each.sandbox.is_archive) for each in named]
            distinct[about] = Doubtful(description, files)
    kinds, positions_of = list(distinct.values()), list(alike.values())
    surroundings = surroundings_of([kind.description for kind in kinds], vo=arrival.vo)
    for sentence, doubted in doubts_about(kinds, surroundings).items():
        arrival.warn(sentence, of=sorted(position for kind in doubted for position in positions_of[kind]))


# ---- Input data ------------------------------------------------------------------------------------------------------


def _input_data(arrival: Arrival) -> None:
    """Find the sites that hold all files of each job; a file that is nowhere is an error (PIL §2.2)."""
    reading = [wanted for wanted in arrival.wanted if wanted.description.input_data]
    if not reading:
        return
    named = sum(len(wanted.description.input_data) for wanted in reading)
    if named > MAX_INPUT_FILES:
        sentence = (
            f"The jobs of one request may name {MAX_INPUT_FILES} input files together, not {named}; send several."
        )
        arrival.refuse(reading[0], "input_data", sentence)
        return
    files_of = {wanted.description.input_data: _file_names(wanted) for wanted in reading}
    located = Located(files_of.values(), vo_id=arrival.vo.pk)
    missing = {given: located.missing(files) for given, files in files_of.items()}
    for wanted in reading:
        if missing[wanted.description.input_data] and not arrival.refused_enough:
            arrival.refuse(wanted, "input_data", _no_replica(missing[wanted.description.input_data], vo=arrival.vo))
    arrival.input_sites = {given: located.sites(files) for given, files in files_of.items()}
    nowhere = sum(_runs_nowhere(wanted.description, arrival) for wanted in reading)
    if nowhere:
        jobs = "1 job is" if nowhere == 1 else f"{nowhere} jobs are"
        arrival.warn(
            f"{jobs} Checking, in no queue: no site where it may run holds all of its input data; "
            "it waits in a queue as soon as one does."
        )


def _file_names(wanted: WantedJob) -> tuple[str, ...]:
    """Return the input files; in a parametric description each %% still stands for one percent sign."""
    files = wanted.description.input_data
    return tuple(lfn.replace("%%", "%") for lfn in files) if wanted.parametric else files


def _no_replica(missing: Sequence[str], *, vo: VO) -> str:
    return f"No replica of {listed(missing)} is known to {vo}; register it, or correct the name."


def _runs_nowhere(description: JobDescription, arrival: Arrival) -> bool:
    holding = arrival.input_sites[description.input_data]
    return narrowed(description.sites, banned_sites=description.banned_sites, holding=holding) is None


# ---- Requirements ----------------------------------------------------------------------------------------------------


def _requirements(arrival: Arrival) -> None:
    """Register one submit pool for each distinct set of requirements (RFC7)."""
    by_key = {requirements_key(wanted.description): wanted for wanted in reversed(arrival.wanted)}
    by_key.pop("", None)
    if not by_key:
        return
    if len(by_key) > MAX_REQUIREMENT_SETS:
        sentence = (
            f"One request may have {MAX_REQUIREMENT_SETS} different requirements, not {len(by_key)}; send several."
        )
        arrival.refuse(next(iter(by_key.values())), "requirements", sentence)
        return
    names, kinds, units = requirement_names(arrival.vo), requirement_kinds(arrival.vo), requirement_units(arrival.vo)
    for wanted in by_key.values():
        try:
            check(dict(wanted.description.requirements), known=names, kinds=kinds, units=units, hint=field_hint)
        except RejectedError as error:
            _refuse_as(arrival, wanted, error)
        if arrival.refused_enough:
            break
    if arrival.errors:
        return
    wanted_sets = [dict(wanted.description.requirements) for wanted in by_key.values()]
    pools = submit_pools.register_all(vo=arrival.vo, requirements=wanted_sets, now=arrival.now)
    arrival.pools |= {key: pool.id for key, pool in zip(by_key, pools, strict=True)}


def _refuse_as(arrival: Arrival, wanted: WantedJob, error: RejectedError) -> None:
    for name, sentences in error.errors.items():
        for sentence in sentences:
            arrival.refuse(wanted, name, sentence)
