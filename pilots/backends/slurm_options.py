"""Options of a CE of type slurm, and the options of sbatch for a slot (PIL §2.3 (iii))."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pilots.backends import options as read
from pilots.backends.commands import COMMON_OPTIONS
from pilots.backends.interface import BackendError, BatchRequest

#: Seconds between the signal to a pilot and the end of its slot; Slurm may send it up to a minute earlier.
NOTICE_S = 60
_MAX_IDLE_S = 300
#: Options of sbatch for which the CE has an option, or the queue a field.
_SET_ELSEWHERE = {
    "account": "the option account",
    "constraint": "the option constraint",
    "cpus-per-task": "the queue's processors",
    "gres": "the queue's gpus",
    "mem": "the queue's memory_mb",
    "partition": "the option partition",
    "qos": "the option qos",
    "time": "the queue's wall_time_s",
    "tmp": "the queue's disk_mb",
}
#: Options of sbatch that would keep pilots from starting or from being found again.
_BREAKING = frozenset(
    {
        "array", "chdir", "clusters", "error", "export", "export-file", "get-user-env", "help", "hold", "input",
        "job-name", "mem-per-cpu", "mem-per-gpu", "no-requeue", "ntasks", "open-mode", "output", "parsable", "requeue",
        "signal", "test-only", "uid", "usage", "version", "wait", "wrap",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """Options of a CE of type slurm, without COMMON_OPTIONS.

    Args:
        directory: on the host, for the pilots' files.
        python: the interpreter for ``host.py``; pilots search for one on their node.
        partition: empty: the one with the name of the slot's queue.
        account, qos: empty: the user's default.
        constraint: features that every node must have; empty: none.
        features: {platform or tag: feature of the nodes that have it}.
        max_pending: pilots that may wait in Slurm beyond those for which a slot is free.
        max_idle_s: seconds without a job after which a pilot ends.
        node_processors: cores of a node; None: detected by the pilot.
        proxy: variables for pilots, by the options proxy and no_proxy.
        submit_arguments: further options of sbatch.
    """

    directory: str
    python: str
    partition: str
    account: str
    qos: str
    constraint: str
    features: Mapping[str, str]
    max_pending: int
    max_idle_s: int
    submit_arguments: tuple[str, ...]
    node_processors: int | None = None
    proxy: Mapping[str, str] = field(default_factory=dict)

    def arguments_for(self, slot: BatchRequest) -> list[str]:
        """Return the options of sbatch that request the slot.

        Nothing is added to the slot's time: mostly it is the partition's limit, and a job that requests more waits
        forever.
        """
        settings = {
            "partition": self.partition or slot.queue,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.features_for(slot),
            "time": -(-slot.wall_time_s // 60) if slot.wall_time_s else 0,  # minutes, rounded up
            "cpus-per-task": slot.processors,
            "mem": slot.memory_mb,  # MB; 0 would be all of a node's memory
            "gres": f"gpu:{slot.gpus}" if slot.gpus else "",
            "tmp": slot.disk_mb,  # MB
        }
        return [
            *self.submit_arguments,
            "--ntasks=1",
            *(f"--{name}={value}" for name, value in settings.items() if value),
        ]

    @property
    def is_exclusive(self) -> bool:
        """Return whether each pilot gets whole nodes."""
        return any(argument.partition("=")[0] == "--exclusive" for argument in self.submit_arguments)

    def partitions_for(self, slot: BatchRequest) -> Sequence[str]:
        """Return the partitions of which a pilot with this slot may use any; empty: all."""
        return [name for name in (self.partition or slot.queue).split(",") if name]

    def features_for(self, slot: BatchRequest) -> str:
        """Return the constraint on the node: one of the platforms, and all tags, as far as they are features here."""
        platforms = "|".join(self._features_of(slot.platforms))
        parts = [part for part in (self.constraint, platforms, *self._features_of(slot.tags)) if part]
        if len(parts) == 1:
            return parts[0]
        return "&".join(f"({part})" if "|" in part and not part.startswith("[") else part for part in parts)

    def _features_of(self, names: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(self.features[name] for name in names if name in self.features))


def parse_options(options: Mapping[str, object]) -> SlurmOptions:
    """Return the options, with defaults.

    Args:
        options: without COMMON_OPTIONS.

    Raises:
        BackendError: one is unknown or wrong.
    """
    known = SlurmOptions.__dataclass_fields__.keys()
    read.refuse_unknown(options.keys(), known={*known, *COMMON_OPTIONS, *read.PROXY_OPTIONS}, kind="slurm")
    return SlurmOptions(
        directory=_directory(options),
        python=read.text(options, "python", default="python3"),
        partition=read.text(options, "partition"),
        account=read.text(options, "account"),
        qos=read.text(options, "qos"),
        constraint=read.text(options, "constraint"),
        features=_features(options.get("features", {})),
        max_pending=read.number(options, "max_pending", default=10, at_least=0),
        max_idle_s=read.number(options, "max_idle_s", default=_MAX_IDLE_S),
        node_processors=read.node_processors(options),
        proxy=read.proxy_variables(options),
        submit_arguments=_submit_arguments(options.get("submit_arguments", [])),
    )


def _directory(options: Mapping[str, object]) -> str:
    directory = read.text(options, "directory", default="wms-pilots")
    if "%" in directory or "\\" in directory:
        # Slurm would replace these patterns, for example by the number of the job.
        raise BackendError(f"The option directory must not contain % or \\; it is {directory!r}.")
    return directory


def _features(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise BackendError(f"The option features must be a record {{platform or tag: feature}}; it is {value!r}.")
    for name, feature in value.items():
        if not isinstance(feature, str) or not feature:
            raise BackendError(f"The feature of {name} must be a text such as el9; it is {feature!r}.")
    return {str(name): feature for name, feature in value.items()}


def _submit_arguments(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(argument, str) for argument in value):
        raise BackendError(f"The option submit_arguments must be a list of texts; it is {value!r}.")
    for argument in value:
        _check_argument(argument)
    return tuple(value)


def _check_argument(argument: str) -> None:
    """Refuse an argument that is not one option of sbatch, or an option that the backend sets itself.

    Raises:
        BackendError: it is refused.
    """
    name = argument.removeprefix("--").partition("=")[0]
    if not argument.startswith("--") or not name:
        # The value of a short option would be taken as the name of the script, and the pilot's script as its argument.
        raise BackendError(f"The submit argument {argument!r} must be one text such as --name=value or --name.")
    # sbatch accepts abbreviations as well.
    for whole in sorted(option for option in {*_BREAKING, *_SET_ELSEWHERE} if option.startswith(name)):
        instead = f"; use {_SET_ELSEWHERE[whole]} instead" if whole in _SET_ELSEWHERE else ""
        raise BackendError(f"The submit argument {argument} is not allowed: the server sets --{whole}{instead}.")
