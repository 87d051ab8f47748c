"""Options of a CE of type htcondor, and the submit description of its pilots (PIL §2.3 (iii))."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pilots.backends import options as read
from pilots.backends.commands import COMMON_OPTIONS
from pilots.backends.interface import BackendError, BatchRequest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Attributes that would keep pilots from starting or from being found again.
_OWN_ATTRIBUTES = ("WmsStamp", "WmsCE", "Requirements", "PeriodicRemove", "PeriodicRemoveReason", "MaxWallTime")
#: Seconds between the signal to an evicted pilot and its kill; a machine may give less.
_LEAVE_WITHIN_S = 30
_MAX_IDLE_S = 300
#: HoldReasonCode of a hold by a person, who may release the job. All other holds report a fault of the job.
HELD_BY_A_PERSON = 1
#: Pilots start only once, because the secret is single-use. NB: the machine checks this too before it starts a job, so
#: it also holds until the schedd removes the job.
_NEVER_STARTED = "(isUndefined(MY.NumJobStarts) || MY.NumJobStarts < 1)"
_EVICTED = "(JobStatus == 1 && NumJobStarts >= 1)"
_HELD = f"(JobStatus == 5 && (HoldReasonCode =!= {HELD_BY_A_PERSON} || NumJobStarts >= 1))"
#: NB: no graceful removal: such a job leaves the queue while its processes may still run. It would count as ended, and
#: its payload would run a second time. An evicted job stays in the queue until its processes have ended.
_DESCRIPTION = """\
universe = vanilla
executable = {directory}/$(wms_stamp)/pilot.sh
initialdir = {directory}/$(wms_stamp)
batch_name = wms-$(wms_stamp)
output = pilot.log
error = pilot.log
log = events
should_transfer_files = YES
when_to_transfer_output = ON_EXIT
transfer_input_files = secret
transfer_output_files = ""
notification = never
want_graceful_removal = false
job_max_vacate_time = {leave_within_s}
{asked}
queue wms_stamp from (
{stamps}
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HTCondorOptions:
    """Options of a CE of type htcondor, without COMMON_OPTIONS.

    Args:
        directory: on the host, for the pilots' files.
        python: the interpreter for ``host.py``; pilots search for one on their node.
        requirements: ClassAd expression that every slot for pilots fulfils; empty: any slot.
        attributes: {name: ClassAd expression} of the jobs, such as an accounting group.
        features: {platform or tag: ClassAd expression that is true of the slots with it}.
        max_pending: pilots that may wait in the schedd beyond those for which a slot is free.
        max_idle_s: seconds without a job after which a pilot ends.
        node_processors: cores of a node; None: detected by the pilot.
        proxy: variables for pilots, by the options proxy and no_proxy.
    """

    directory: str
    python: str
    requirements: str
    attributes: Mapping[str, str]
    features: Mapping[str, str]
    max_pending: int
    max_idle_s: int
    node_processors: int | None = None
    proxy: Mapping[str, str] = field(default_factory=dict)

    def description_for(self, slot: BatchRequest, *, place: str, directory: str, stamps: Sequence[str]) -> str:
        """Return the submit description of pilots with equal slots.

        Args:
            slot: the slot.
            place: the value of WmsCE, by which ``capacity`` counts the pilots of this CE.
            directory: on the host; contains a directory per stamp with the pilot's script and secret.
            stamps: those of the pilots.
        """
        settings = {
            **{f"+{name}": _plain(value) for name, value in self.attributes.items()},
            "+WmsStamp": '"$(wms_stamp)"',
            "+WmsCE": _plain(quoted(place)),
            "request_cpus": str(slot.processors),
            "request_memory": f"{slot.memory_mb} MB" if slot.memory_mb else "",
            "request_disk": f"{slot.disk_mb} MB" if slot.disk_mb else "",
            "request_gpus": str(slot.gpus) if slot.gpus else "",
            "requirements": _plain(" && ".join(self._requirements_for(slot))),
            **_ends(slot),
        }
        return _DESCRIPTION.format(
            directory=_plain(directory),
            leave_within_s=_LEAVE_WITHIN_S,
            asked="\n".join(f"{name} = {value}" for name, value in settings.items() if value),
            stamps="\n".join(stamps),
        )

    def _requirements_for(self, slot: BatchRequest) -> Iterable[str]:
        """Yield the requirements on the slot: one of the platforms, and all tags, as far as they are features here."""
        yield _NEVER_STARTED
        if self.requirements:
            yield f"({self.requirements})"
        if platforms := self._features_of(slot.platforms):
            yield f"({' || '.join(platforms)})"
        yield from self._features_of(slot.tags)

    def _features_of(self, names: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(f"({self.features[name]})" for name in names if name in self.features))


def parse_options(options: Mapping[str, object]) -> HTCondorOptions:
    """Return the options, with defaults.

    Args:
        options: without COMMON_OPTIONS.

    Raises:
        BackendError: one is unknown or wrong.
    """
    known = HTCondorOptions.__dataclass_fields__.keys()
    read.refuse_unknown(options.keys(), known={*known, *COMMON_OPTIONS, *read.PROXY_OPTIONS}, kind="htcondor")
    attributes = _expressions(options, "attributes")
    for name in attributes:
        if not _NAME.fullmatch(name):
            raise BackendError(f"The option attributes must have names of letters, digits and _; {name!r} is not one.")
        if name.casefold() in map(str.casefold, _OWN_ATTRIBUTES):
            raise BackendError(f"{name} in the option attributes is not allowed: the server sets it; remove it.")
    return HTCondorOptions(
        directory=read.text(options, "directory", default="wms-pilots"),
        python=read.text(options, "python", default="python3"),
        requirements=_expression(options["requirements"], where="The option requirements")
        if read.text(options, "requirements")
        else "",
        attributes=attributes,
        features=_expressions(options, "features"),
        max_pending=read.number(options, "max_pending", default=10, at_least=0),
        max_idle_s=read.number(options, "max_idle_s", default=_MAX_IDLE_S),
        node_processors=read.node_processors(options),
        proxy=read.proxy_variables(options),
    )


def quoted(text: str) -> str:
    """Return the text as a string literal of a ClassAd.

    NB: HTCondor's programs read old ClassAds, in which a backslash is literal except before a quote.
    """
    return '"{}"'.format(text.replace('"', '\\"'))


def _ends(slot: BatchRequest) -> Mapping[str, str]:
    """Return when the schedd removes a pilot, and the reason that it records."""
    conditions = [_HELD, _EVICTED]
    why = 'ifThenElse(JobStatus == 5, strcat("held: ", HoldReason), "it was evicted, and pilots start once")'
    if not slot.wall_time_s:
        return {"periodic_remove": " || ".join(conditions), "+PeriodicRemoveReason": why}
    over = f"(JobStatus == 2 && time() - JobCurrentStartDate > {slot.wall_time_s})"
    return {
        "+MaxWallTime": str(-(-slot.wall_time_s // 60)),  # minutes, rounded up, as HTCondor-CE has it
        "periodic_remove": " || ".join([*conditions, over]),
        "+PeriodicRemoveReason": f'ifThenElse(JobStatus == 2, "it ran longer than {slot.wall_time_s} s", {why})',
    }


def _plain(text: str) -> str:
    """Return the value with $ escaped, so that a submit description expands nothing in it."""
    return text.replace("$", "$(DOLLAR)")


def _expressions(options: Mapping[str, object], name: str) -> Mapping[str, str]:
    value = options.get(name, {})
    if not isinstance(value, Mapping):
        raise BackendError(f"The option {name} must be a record {{name: ClassAd expression}}; it is {value!r}.")
    return {str(key): _expression(text, where=f"{key} in the option {name}") for key, text in value.items()}


def _expression(value: object, *, where: str) -> str:
    """Return the expression, if it cannot extend beyond its line of a submit description.

    Raises:
        BackendError: it could.
    """
    # A backslash at the end would join the next line.
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or value.endswith("\\"):
        raise BackendError(f"{where} must be a ClassAd expression in one line; it is {value!r}.")
    return value
