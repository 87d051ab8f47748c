"""Slurm 20.11 or newer, by its own programs, on this machine or through SSH.

The CE's ``directory`` must be seen under the same path by the host of the programs and by all nodes, as home
directories commonly are: a pilot finds its secret there and writes its output there.

Pilots are known by the names of their jobs, ``wms-`` and the stamp, for an answer with the job's number may be lost.
Should a job be submitted twice all the same, by an sbatch that came to its end after its time was over, then the first
to start takes the secret, which is single-use, and the other ends for want of it.
"""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from pilots.backends import slurm_nodes
from pilots.backends.commands import TIMEOUT_S, CommandLostError, ask_host, commands_of
from pilots.backends.interface import (
    BackendError,
    BatchQueue,
    BatchRequest,
    BatchState,
    CEDescription,
    Handle,
    PilotOrder,
    Presence,
    SubmitResult,
)
from pilots.backends.options import words_of_node
from pilots.backends.script import SECRET_FILE, pilot_script
from pilots.backends.slurm_options import NOTICE_S, parse_options

#: Of one sbatch among many; Slurm answers in hundredths of a second, but not when thousands submit.
_SBATCH_S = 2.0
#: On one command line; a line may have 128 kB.
_NAMES_AT_ONCE = 1000
#: How far back the accounting is asked; longer than a job runs after it was last seen.
_ACCOUNTING_DAYS = 14
_OUTPUT_BYTES = 2**20
#: Shells say so that a signal ended their command; the last signal is number 64. sbatch itself may end with 255.
_BY_SIGNAL = range(129, 193)
#: Of the words of sbatch, in characters.
_SHOWN = 300
_PREFIX = "wms-"

#: Stands for the queues when none is known.
_ANY_QUEUE = BatchQueue(slot=BatchRequest(queue=""), cpu_time_s=0)

_PRESENCE = {
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
        Presence.WAITING,
    ),
    # Those that complete have processes on their nodes yet.
    **dict.fromkeys(
        ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING"), Presence.RUNNING
    ),
    **dict.fromkeys(
        (
            "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL",
            "LAUNCH_FAILED", "RECONFIG_FAIL",
        ),
        Presence.ENDED,
    ),
    # NB: a node that Slurm has lost may be alive behind a cut cable, its pilot too: NODE_FAIL is not the end of it.
    # Were it said to have ended, its job would run twice at once. If it is silent the server loses patience by itself.
}  # fmt: skip
#: Of jobs that Slurm, its administrators or a node ended; of others the job itself did, by what it used at the most.
_BY_SLURM = frozenset(
    {
        "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "NODE_FAIL",
        "REVOKED",
    }
)  # fmt: skip

#: One sbatch, whose whole answer becomes one line. Written to nobody, because the way here broke, the line ends the
#: loop; so does a Slurm that is down, whose absence each sbatch would wait for.
_SUBMIT_ALL = """\
submit() {
    stamp=$1; shift
    said=$("$@" 2>&1 </dev/null)
    printf '%s %s %s\\n' "$stamp" "$?" "$(printf %s "$said" | tr '\\n' '\\t')" || exit
    case $said in *"Unable to contact"*) exit;; esac
}
"""
#: Jobs of squeue, and of the accounting, whose states may have words behind them, such as "CANCELLED by 0".
_PRESENT = re.compile(
    rf"^(?P<batch_id>[0-9]+)\|(?P<state>[A-Z_]+)\|(?P<code>[^|\n]*)\|{_PREFIX}(?P<stamp>[^|\n]+)\|(?P<why>.*)\|$",
    re.MULTILINE,
)
_PAST = re.compile(
    rf"^(?P<batch_id>[0-9]+)\|(?P<state>[A-Z_]+)[^|\n]*\|(?P<code>[^|\n]*)\|{_PREFIX}(?P<stamp>[^|\n]+)$", re.MULTILINE
)
#: A pilot that waits: its partition, or several with commas.
_WAITING = re.compile(rf"^([^|\n]+)\|{_PREFIX}", re.MULTILINE)
_EXIT_CODE = re.compile(r"([0-9]+)(?::([0-9]+))?")
_JOB_ID = re.compile(r"(?:^|(?<=\t))([0-9]+)(?:;[^\t]*)?(?=\t|$)")
#: After these nobody knows whether the job was taken; after "connect failure" it was not.
_LOST = re.compile(
    r"timed out|zero bytes|(send|receive|shutdown) failure|communication|transport|header lengths|insane message"
    r"|unexpected message",
    re.IGNORECASE,
)


class SlurmBackend:
    """One Slurm cluster, or some of its partitions."""

    def __init__(self, description: CEDescription) -> None:
        """Take the description; see ``Backend``."""
        self._commands, others = commands_of(description.options, directory=description.directory)
        self._options = parse_options(others)
        self._server_url = description.server_url
        self._queues = description.queues
        #: Where all these pilots go; none: anywhere.
        self._partitions = sorted(
            {name for queue in self._queues or [_ANY_QUEUE] for name in self._options.partitions_for(queue.slot)}
        )
        wanted = self._options.directory
        #: Relative to the home directory there, not to wherever this process is.
        self._directory = wanted if wanted.startswith(("/", "~")) else f"~/{wanted}"

    def capacity(self) -> int:
        """Return the free slots and ``max_pending`` less the pilots that wait; see ``Backend``."""
        # Only those of these partitions wait for these nodes. One of them that is not there would be an error.
        jobs = "squeue --all --me --noheader --states=PENDING --format='%P|%j'"
        answer, _, waiting = self._shell(f"{self._sinfo()} || exit\necho =\n{jobs}").partition("=\n")
        nodes = list(slurm_nodes.nodes_in(answer))
        if not nodes:
            of_it = (
                f' of the partition "{",".join(self._partitions)}"; is it spelled right?' if self._partitions else "."
            )
            raise BackendError(f"Slurm shows no node{of_it}")
        free = slurm_nodes.free_slots(nodes, self._queues or [_ANY_QUEUE], options=self._options)
        pending = sum(self._is_among_ours(names) for names in _WAITING.findall(waiting))
        return max(0, free + self._options.max_pending - pending)

    def doubts(self) -> Sequence[str]:
        """Return where Slurm gives less time than the queues promise; see ``Doubting``."""
        nodes = list(slurm_nodes.nodes_in(self._shell(self._sinfo())))
        return list(slurm_nodes.doubts(nodes, self._queues, options=self._options))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots, in four calls to the host for all together; see ``Backend``."""
        known = self.status([Handle(stamp=order.stamp) for order in orders])
        new = [order for order in orders if order.stamp not in known]
        submissions = {one: SubmitResult(stamp=one, batch_id=state.batch_id) for one, state in known.items()}
        submissions |= {one.stamp: one for one in self._submit_new(new)}
        if refused := [Handle(stamp=one.stamp) for one in submissions.values() if one.error]:
            with suppress(BackendError):  # the others have been submitted, whatever becomes of these files
                self.clean(refused)
        return [submissions[order.stamp] for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return where the pilots are; those that Slurm has forgotten are asked of its accounting; see ``Backend``."""
        wanted = {handle.stamp for handle in handles}
        states: dict[str, BatchState] = {}
        for stamp, state in self._present():
            # Of two of one name the one that has not ended counts.
            if stamp in wanted and (stamp not in states or states[stamp].presence is Presence.ENDED):
                states[stamp] = state
        if missing := wanted - states.keys():
            # The accounting learns late and may never learn of an end: only an end that it tells of is believed.
            past = {stamp: state for stamp, state in self._past(missing) if state.presence is Presence.ENDED}
            states |= {stamp: past[stamp] for stamp in missing & past.keys()}
        return states

    def kill(self, handles: Collection[Handle]) -> None:
        """Cancel the pilots' jobs, whose payloads are killed within Slurm's KillWait; see ``Backend``."""
        self._shell(
            "\n".join(
                f"jobs=$(squeue --all --me --noheader --states=all --name={names} --format=%A) || exit\n"
                '[ -z "$jobs" ] || scancel --quiet $jobs || exit'
                for names in _names(handle.stamp for handle in handles)
            )
        )

    def output(self, handle: Handle) -> str:
        """Return what the pilot wrote; see ``Backend``."""
        path = f"{self._directory}/{handle.stamp}/pilot.log"
        return str(self._ask_host(do="tail", path=path, size=_OUTPUT_BYTES))

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' scripts, programs and secrets; see ``Backend``."""
        self._ask_host(do="forget", directory=self._directory, stamps=[handle.stamp for handle in handles])

    def _sinfo(self) -> str:
        where = f"--partition={','.join(self._partitions)}" if self._partitions else "--all"
        return f"sinfo --Node --noheader {shlex.quote(where)} --Format='{slurm_nodes.FORMAT}'"

    def _is_among_ours(self, partitions: str) -> bool:
        return not self._partitions or not set(self._partitions).isdisjoint(partitions.split(","))

    def _submit_new(self, orders: Sequence[PilotOrder]) -> Iterator[SubmitResult]:
        if not orders:
            return
        life = ("--max-idle-s", str(self._options.max_idle_s), *words_of_node(self._options.node_processors))
        files = {
            f"{order.stamp}/{name}": content
            for order in orders
            for name, content in (
                ("pilot.sh", pilot_script(order, server_url=self._server_url, secret_file=SECRET_FILE, more=life)),
                (SECRET_FILE, f"{order.secret}\n"),
            )
        }
        # Its real path: what is a link here may be none on the nodes.
        directory = self._ask_host(do="write", directory=self._directory, files=files)
        lines = (
            shlex.join(["submit", order.stamp, *self._sbatch(order, f"{directory}/{order.stamp}")]) for order in orders
        )
        try:
            answer = self._shell(_SUBMIT_ALL + "\n".join(lines), timeout_s=TIMEOUT_S + _SBATCH_S * len(orders))
        except CommandLostError:
            answer = ""
        # NB: not splitlines, which knows more ends of lines than the shell does.
        told = {stamp: words for stamp, _, words in (line.partition(" ") for line in answer.split("\n"))}
        for stamp in (order.stamp for order in orders):
            yield _submission_of(stamp, told[stamp]) if stamp in told else SubmitResult(stamp=stamp)

    def _sbatch(self, order: PilotOrder, directory: str) -> list[str]:
        return [
            "sbatch",
            *self._options.arguments_for(order.slot),
            "--parsable",
            f"--job-name={_PREFIX}{order.stamp}",
            f"--chdir={directory}",
            "--input=/dev/null",
            "--output=pilot.log",
            "--open-mode=append",
            "--export=NONE",  # nothing of the host's environment is the nodes' business; they have their own
            # To the shell, which has become the agent by then, and not to the payloads.
            f"--signal=B:TERM@{NOTICE_S}",
            "--no-requeue",  # the secret is single-use
            f"{directory}/pilot.sh",
        ]

    def _present(self) -> Iterator[tuple[str, BatchState]]:
        """Return what Slurm says of all pilots of this user: those that live, and those that ended minutes ago."""
        squeue = ["squeue", "--all", "--me", "--noheader", "--states=all"]
        answer = self._commands.run([*squeue, "--Format=JobID:|,State:|,exit_code:|,Name:|,Reason:|"])
        return map(_told, _PRESENT.finditer(answer))

    def _past(self, stamps: Collection[str]) -> Iterator[tuple[str, BatchState]]:
        """Return what is kept of jobs that Slurm itself has forgotten: in its database, or else in its file of them."""
        asked = (
            f"--noheader --parsable2 --starttime=now-{_ACCOUNTING_DAYS}days --format=JobIDRaw,State,ExitCode,JobName"
        )
        lines = (
            # The file is listed as a whole, whatever names are asked for.
            f"sacct --allocations {asked} --name={names} 2>/dev/null"
            f" || sacct --completion {asked} 2>/dev/null | grep -F '|{_PREFIX}' || :"
            for names in _names(stamps)
        )
        return map(_told, _PAST.finditer(self._shell("\n".join(lines))))

    def _shell(self, script: str, *, timeout_s: float = TIMEOUT_S) -> str:
        return self._commands.run(["sh", "-s"], stdin=script, timeout_s=timeout_s)

    def _ask_host(self, **request: object) -> object:
        return ask_host(self._commands, request, python=self._options.python)


def _names(stamps: Iterable[str]) -> Iterator[str]:
    """Yield the names of the jobs with commas, as the shell reads them, as many at once as a command line may have."""
    names = [f"{_PREFIX}{stamp}" for stamp in stamps]
    for start in range(0, len(names), _NAMES_AT_ONCE):
        yield shlex.quote(",".join(names[start : start + _NAMES_AT_ONCE]))


def _told(found: re.Match[str]) -> tuple[str, BatchState]:
    """Return the stamp and the state of a pilot that was found in an answer of Slurm."""
    state, why = found["state"], found.groupdict().get("why", "None")
    presence = _PRESENCE.get(state, Presence.UNKNOWN)
    words = ("" if state in {"PENDING", "RUNNING"} else state, "" if why == "None" else why)
    return found["stamp"], BatchState(
        presence=presence,
        batch_id=found["batch_id"],
        exit_code=_exit_code(found["code"], state=state) if presence is Presence.ENDED else None,
        reason=": ".join(filter(None, words)),
        by_system=state in _BY_SLURM,
    )


def _exit_code(code: str, *, state: str) -> int | None:
    """Return the exit code of an ended job, negative for a signal; None when that says nothing.

    Args:
        code: as ``wait`` says it, or as exit code, colon and signal.
        state: in which the job ended.
    """
    said = _EXIT_CODE.fullmatch(code)
    if said is None:
        return None
    exited, signalled = said.groups()
    number = os.waitstatus_to_exitcode(int(exited)) if signalled is None else -int(signalled) or int(exited)
    # Of a job that was ended by Slurm, before its start or after it, 0 says nothing.
    return number if number or state == "COMPLETED" else None


def _submission_of(stamp: str, told: str) -> SubmitResult:
    """Return what came of one sbatch by its exit code and what it wrote, a tab for each end of a line."""
    code, _, said = told.partition(" ")
    if code == "0":
        # What it warns of may come first, what a site's own wrapper has to say last.
        found = _JOB_ID.findall(said)
        return SubmitResult(stamp=stamp, batch_id=found[-1] if found else "")
    if int(code) in _BY_SIGNAL or _LOST.search(said):
        return SubmitResult(stamp=stamp)
    sentences = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.split("\t"))
    return SubmitResult(stamp=stamp, error=f"Slurm refused it: {'; '.join(filter(None, sentences))[-_SHOWN:]}.")
