"""The sanity step: checks that names exist, sandboxes are usable and output goes to allowed directories."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from django.conf import settings

from resources.queries.known_names import known_ces, known_elements, known_platforms, known_sites
from taskqueues.services import submit_pools
from wms.accounts.models import VO
from wms.jobs.domain.asked_and_used import AskedAmounts, compared, stem_of
from wms.jobs.domain.data import absolute, home_of, is_own, lfn_of_output
from wms.jobs.domain.description_checks import MAX_OUTPUT_PATH
from wms.jobs.domain.executable_warnings import depends_on_files, program_of, script_in
from wms.jobs.domain.fields import shown
from wms.jobs.domain.shell_signs import shell_signs
from wms.jobs.domain.submission_warnings import JUDGED_BY, CheckedJob, findings_about, quotes_are_closed
from wms.jobs.queries import own_directories, surroundings_of
from wms.jobs.queries.used_before import used_before
from wms.jobs.services import sandboxes
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.output_names import check_output_names
from wms.jobs.services.optimizers.placeholders import check_placeholders
from wms.jobs.services.program_files import ProgramFiles
from wms.kernel.names import several_in_one
from wms.wire.executables import flaw_of_head
from wms.wire.protocol import MAX_NAME

#: {field of names that must exist: (noun, known names)}; a job with a mistyped name would wait forever.
_MUST_EXIST: Final[Mapping[str, tuple[str, Callable[[VO], frozenset[str]]]]] = MappingProxyType(
    {
        "sites": ("site", known_sites),
        "banned_sites": ("site", known_sites),
        "grid_ces": ("computing element", known_ces),
        "platforms": ("platform", lambda _: known_platforms()),
    }
)


def check_sanity(arrival: Arrival) -> None:
    """Refuse jobs that could never run as described, and find what probably will not work."""
    for name, (noun, known_names_of) in _MUST_EXIST.items():
        names = arrival.values(name)
        if names:
            _refuse_unknown(arrival, name, noun=noun, names=names, known_names=known_names_of(arrival.vo))
    check_placeholders(arrival)
    _check_setups(arrival)
    _check_input_sandboxes(arrival)
    _check_output_data(arrival)
    if not arrival.errors:
        check_output_names(arrival)
    _check_stall_windows(arrival)
    _check_arguments(arrival)
    files = ProgramFiles()
    _check_executables(arrival, files)
    _judge_descriptions(arrival, files)
    _compare_with_earlier(arrival)
    if (pools := arrival.values("submit_pools")) and not arrival.is_rehearsal:
        submit_pools.keep_named(pools, vo=arrival.vo, now=arrival.now)


def _refuse_unknown(
    arrival: Arrival, name: str, *, noun: str, names: frozenset[str], known_names: frozenset[str]
) -> None:
    unknown = names - known_names
    for job in arrival.jobs if unknown else ():
        for value in getattr(job.common, name):
            if value in unknown and not arrival.refused_enough:
                hint = several_in_one(value) or arrival.hint(noun, value, known_names=known_names)
                arrival.refuse(job, name, f'No {noun} of the VO {arrival.vo} is called "{value}".{hint}')


def _check_setups(arrival: Arrival) -> None:
    setups = arrival.vo.setups
    for job in arrival.among(lambda description: description.setup not in {None, *setups}):
        setup = str(job.common.setup)
        hint = arrival.hint("setup", setup, known_names=setups)
        arrival.refuse(job, "setup", f'The VO {arrival.vo} has no setup "{setup}".{hint}')


def _check_input_sandboxes(arrival: Arrival) -> None:
    all_references = frozenset(filter(_is_uploaded, arrival.values("input_sandbox")))
    if not all_references:
        return
    nameable = sandboxes.nameable(all_references, owner=arrival.owner, group=arrival.group)
    nameable = sandboxes.held(nameable) if arrival.coming_files is None else {**nameable, **arrival.coming_files}
    for job in arrival.among(lambda description: description.input_sandbox):
        references = job.common.input_sandbox
        if references in arrival.input_sandboxes or arrival.refused_enough:
            continue
        try:
            arrival.input_sandboxes[references] = sandboxes.resolve(
                list(filter(_is_uploaded, references)), owner=arrival.owner, group=arrival.group, known=nameable
            )
        except sandboxes.UnusableSandboxError as error:
            arrival.refuse_as(job, error)
            continue
        for named in arrival.input_sandboxes[references] if arrival.is_rehearsal else ():
            # An uploaded one was refused by its upload.
            if named.sandbox.size_bytes > settings.WMS_SANDBOX_MAX_BYTES:
                size = f"{named.file_name} has {named.sandbox.size_bytes} bytes. "
                arrival.refuse(job, "input_sandbox", f"{size}{sandboxes.too_large().detail}")


def _is_uploaded(entry: str) -> bool:
    """Return whether an entry of an input sandbox is not a file of the catalogue."""
    return not lfn_of_output(entry)


def _check_output_data(arrival: Arrival) -> None:
    storage_elements = {common.output_se for common in arrival.commons} - {None}
    known_names = known_elements(arrival.vo) if storage_elements else frozenset()
    output_lists = {common.output_data for common in arrival.commons}
    lfns_of = {files: tuple(filter(None, map(lfn_of_output, files))) for files in output_lists}
    placed = any(lfns_of.values()) or any(common.output_path for common in arrival.commons)
    own = own_directories(arrival.owner, group=arrival.group, vo=arrival.vo) if placed else ()
    for job in arrival.among(lambda each: each.output_se is not None or each.output_path or lfns_of[each.output_data]):
        element, path = job.common.output_se, job.common.output_path
        if element is not None and element not in known_names and not arrival.refused_enough:
            hint = arrival.hint("storage element", element, known_names=known_names)
            sentence = f'No storage element of the VO {arrival.vo} is called "{element}".{hint}'
            arrival.refuse(job, "output_se", sentence)
        path = path and absolute(path, home=home_of(arrival.owner.username, vo=arrival.vo.name))
        if path and len(path) > MAX_OUTPUT_PATH and not arrival.refused_enough:
            sentence = f"{path[:MAX_NAME]} has more than {MAX_OUTPUT_PATH} characters; shorten output_path."
            arrival.refuse(job, "output_path", sentence)
        elif path and not is_own(path, directories=own) and not arrival.refused_enough:
            sentence = f"output_path must be below {' or '.join(own)}; you may not write to other directories."
            arrival.refuse(job, "output_path", sentence)
        for lfn in lfns_of[job.common.output_data]:
            if not is_own(lfn.rpartition("/")[0], directories=own) and not arrival.refused_enough:
                sentence = f"LFN:{lfn} must be below {' or '.join(own)}; you may not write to other directories."
                arrival.refuse(job, "output_data", sentence)


def _check_stall_windows(arrival: Arrival) -> None:
    longest_s = arrival.vo.longest_stalled_s
    for job in arrival.among(lambda description: description.stalled_s is not None) if longest_s else ():
        stalled_s = job.common.stalled_s
        if stalled_s is not None and not 0 < stalled_s <= longest_s and not arrival.refused_enough:
            sentence = f"The VO {arrival.vo} allows a stalled_s of at most {longest_s}, not {stalled_s}"
            arrival.refuse(job, "stalled_s", sentence + ("." if stalled_s else ", which is no limit."))


def _check_arguments(arrival: Arrival) -> None:
    for job in arrival.jobs:
        if not quotes_are_closed(job.described.arguments) and not arrival.refused_enough:
            sentence = (
                f"A quote in arguments is not closed, or a backslash is the last character: "
                f"{shown(job.described.arguments)}. Close it, or put a backslash before the character."
            )
            arrival.refuse(job, "arguments", sentence)


def _check_executables(arrival: Arrival, files: ProgramFiles) -> None:
    """Refuse executables that run nowhere as meant, if they are files of their own."""
    for job in arrival.among(lambda description: description.input_sandbox):
        name = job.common.executable.removeprefix("./")
        named_sandboxes = arrival.input_sandboxes.get(job.common.input_sandbox, ())
        head = None if arrival.refused_enough else files.head_of_own(name, named_sandboxes)
        flaw = None if head is None else flaw_of_head(name, head)
        if flaw is not None:
            cure = f": {flaw.cure}" if flaw.cure else ""
            arrival.refuse(job, "executable", f"{flaw.sentence}{cure}.")


def _judge_descriptions(arrival: Arrival, files: ProgramFiles) -> None:
    """Find what will probably not work as intended; equal descriptions are checked once."""
    distinct: dict[tuple[object, ...], CheckedJob] = {}
    alike: dict[tuple[object, ...], list[int]] = {}
    positions_of_part: dict[tuple[int, str], list[int]] = {}
    for position, job in enumerate(arrival.jobs):
        arguments = _judged_arguments(job.common.executable, job.described.arguments)
        positions_of_part.setdefault((id(job.common), arguments), []).append(position)
    for (_, arguments), positions in positions_of_part.items():
        common = arrival.jobs[positions[0]].common
        description = {**{name: getattr(common, name) for name in JUDGED_BY}, "arguments": arguments}
        about = (*description.values(), common.input_sandbox)
        alike.setdefault(about, []).extend(positions)
        if about not in distinct:
            named_sandboxes = arrival.input_sandboxes.get(common.input_sandbox, ())
            program = program_of(description).name if depends_on_files(description) else ""
            named, head = files.named(program, named_sandboxes)
            distinct[about] = CheckedJob(description, named, head)
    kinds, positions_of = list(distinct.values()), list(alike.values())
    surroundings = surroundings_of([kind.description for kind in kinds], vo=arrival.vo)
    for finding, found in findings_about(kinds, surroundings).items():
        arrival.find(finding, of=sorted(position for kind in found for position in positions_of[kind]))


def _compare_with_earlier(arrival: Arrival) -> None:
    """Find what asks for far more, or less, than the last jobs of its name used."""
    positions_of: dict[AskedAmounts, list[int]] = {}
    for position, job in enumerate(arrival.jobs):
        asked = AskedAmounts(job.common.cpu_time_s, job.common.memory_mb, job.common.processors)
        positions_of.setdefault(asked, []).append(position)
    stem = stem_of(job.described.job_name for job in arrival.jobs)
    if not stem or not any(asked.is_much for asked in positions_of):
        return
    used = used_before(arrival.owner, stem)
    for asked, positions in positions_of.items():
        for finding in compared(asked, used):
            arrival.find(finding, of=positions)


def _judged_arguments(executable: str, arguments: str) -> str:
    """Return the arguments, or the script in them, as far as findings depend on them."""
    return arguments if shell_signs(executable, arguments) else script_in(executable, arguments)
