"""The backend of Slurm 20.11 or newer: runs its programs on this machine or through SSH.

The CE's ``directory`` must have the same path on the host of the programs and on all nodes, as home directories
commonly do: a pilot reads its secret and writes its output there.

Pilots are found by the names of their jobs, ``wms-`` and the stamp, because the reply with the job's number may be
lost. If a pilot is submitted twice all the same, by an sbatch that finished after its timeout, the first to start uses
the single-use secret, and the other one ends without it.
"""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

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
    by_stamp,
)
from pilots.backends.options import words_of_node
from pilots.backends.script import SECRET_FILE, pilot_script
from pilots.backends.slurm_options import NOTICE_S, parse_options

T = TypeVar("T")

#: Timeout per sbatch among many; Slurm takes hundredths of a second unless thousands submit.
_SBATCH_S = 2.0
#: Job names in one command line, which may have 128 kB.
_NAMES_AT_ONCE = 1000
#: Days back for which the accounting is read; longer than a job runs after it was last seen.
_ACCOUNTING_DAYS = 14
_OUTPUT_BYTES = 2**20
#: Exit codes by which shells report that a signal ended the command; the last signal is number 64. sbatch may end with
#: 255.
_BY_SIGNAL = frozenset(map(str, range(129, 193)))
_CODE = re.compile(r"[0-9]{1,3}")
#: Between the answers of two commands; a line of its own.
_NEXT = "\n=\n"
#: Characters of the output of sbatch that an error quotes.
_SHOWN = 300
_PREFIX = "wms-"

#: Used when no queue is known.
_ANY_QUEUE = BatchQueue(slot=BatchRequest(queue=""), cpu_time_s=0)

_PRESENCE = {
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
        Presence.WAITING,
    ),
    # Completing jobs still have processes on their nodes.
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
    # NB: NODE_FAIL is not an end: a node that Slurm cannot reach may still run the pilot, behind a cut cable. If the
    # pilot counted as ended, its job would run twice. A silent pilot ends by its timeout on the server.
}  # fmt: skip
#: States after an end by Slurm, its administrators or a node; other jobs ended by themselves or by their own usage.
_BY_SLURM = frozenset(
    {
        "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "NODE_FAIL",
        "REVOKED",
    }
)  # fmt: skip

#: One sbatch, whose output becomes one line. The loop ends when the connection breaks, because the line cannot be
#: written, and when Slurm is down, because each sbatch would wait for its timeout.
_SUBMIT_ALL = """\
submit() {
    stamp=$1; shift
    output=$("$@" 2>&1 </dev/null)
    printf '%s %s %s\\n' "$stamp" "$?" "$(printf %s "$output" | tr '\\n' '\\t')" || exit
    case $output in *"Unable to contact"*) exit;; esac
}
"""
#: Lines of the accounting, whose states may have words after them, such as "CANCELLED by 0", and of squeue.
_JOB = rf"^(?P<batch_id>[0-9]{{1,20}})\|(?P<state>[A-Z_]*)[^|\n]*\|(?P<code>[^|\n]*)\|{_PREFIX}(?P<stamp>[^|\n]+)"
_PAST = re.compile(rf"{_JOB}$", re.MULTILINE)
_PRESENT = re.compile(rf"{_JOB}\|(?P<why>.*)\|$", re.MULTILINE)
#: A waiting pilot: its partition, or several with commas.
_WAITING = re.compile(rf"^([^|\n]+)\|{_PREFIX}", re.MULTILINE)
_EXIT_CODE = re.compile(r"([0-9]{1,10})(?::([0-9]{1,3}))?")
_JOB_ID = re.compile(r"(?:^|(?<=\t))([0-9]{1,20})(?:;[^\t]*)?(?=\t|$)")
#: Errors after which it is not known whether the job was accepted; after "connect failure" it was not.
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
        #: The partitions of all these pilots; empty: any.
        self._partitions = sorted(
            {name for queue in self._queues or [_ANY_QUEUE] for name in self._options.partitions_for(queue.slot)}
        )
        directory = self._options.directory
        #: Relative to the home directory on the host, not to the working directory of this process.
        self._directory = directory if directory.startswith(("/", "~")) else f"~/{directory}"

    def capacity(self) -> int:
        """Return the free slots and ``max_pending`` less the pilots that wait; see ``Backend``."""
        # Only pilots of these partitions wait for these nodes. squeue fails if given a partition that does not exist.
        jobs = "squeue --all --me --noheader --states=PENDING --format='%P|%j'"
        answer, _, waiting = self._shell(f"{self._sinfo()} || exit\nprintf '\\n=\\n'\n{jobs}").partition(_NEXT)
        nodes = list(slurm_nodes.nodes_in(answer))
        if not nodes:
            of_it = f' of the partition "{",".join(self._partitions)}"; check its spelling' if self._partitions else "."
            raise BackendError(f"Slurm shows no node{of_it}")
        free = slurm_nodes.free_slots(nodes, self._queues or [_ANY_QUEUE], options=self._options)
        pending = sum(self._is_among_ours(names) for names in _WAITING.findall(waiting))
        return max(0, free + self._options.max_pending - pending)

    def shortfalls(self) -> Sequence[str]:
        """Return where Slurm's time limits are below what the queues promise; see ``ChecksQueues``."""
        nodes = list(slurm_nodes.nodes_in(self._shell(self._sinfo())))
        return list(slurm_nodes.shortfalls(nodes, self._queues, options=self._options))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots, with four calls to the host in all; see ``Backend``."""
        earlier = self.status([Handle(stamp=order.stamp) for order in orders])
        new = [order for order in orders if order.stamp not in earlier]
        results = {stamp: SubmitResult(stamp=stamp, batch_id=state.batch_id) for stamp, state in earlier.items()}
        results |= {result.stamp: result for result in self._submit_new(new)}
        if refused := [Handle(stamp=result.stamp) for result in results.values() if result.error]:
            with suppress(BackendError):  # a failure here must not hide that the others were submitted
                self.clean(refused)
        return [results[order.stamp] for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return the states of the pilots, from the accounting where Slurm no longer has the job; see ``Backend``."""
        stamps = {handle.stamp for handle in handles}
        present = by_stamp(self._present())
        states = {stamp: present[stamp] for stamp in stamps & present.keys()}
        if missing := stamps - states.keys():
            past = by_stamp(self._past(missing))
            # The accounting is updated late and may miss an end, so only ended states are taken from it.
            ended = {stamp for stamp, state in past.items() if state.presence is Presence.ENDED}
            states |= {stamp: past[stamp] for stamp in missing & ended}
        return states

    def kill(self, handles: Collection[Handle]) -> None:
        """Cancel the pilots' jobs; payloads are killed within Slurm's KillWait; see ``Backend``."""
        self._shell(
            "\n".join(
                f"jobs=$(squeue --all --me --noheader --states=all --name={names} --format='%A|%j') || exit\n"
                f"jobs=$(printf '%s\\n' \"$jobs\" | sed -n 's/^\\([0-9]*\\)|{_PREFIX}.*/\\1/p')\n"
                '[ -z "$jobs" ] || scancel --quiet $jobs || exit'
                for names in _names(handle.stamp for handle in handles)
            )
        )

    def output(self, handle: Handle) -> str:
        """Return the output of the pilot; see ``Backend``."""
        path = f"{self._directory}/{handle.stamp}/pilot.log"
        return self._ask_host(str, do="tail", path=path, size=_OUTPUT_BYTES)

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' scripts, programs and secrets; see ``Backend``."""
        self._ask_host(type(None), do="forget", directory=self._directory, stamps=[handle.stamp for handle in handles])

    def _sinfo(self) -> str:
        where = f"--partition={','.join(self._partitions)}" if self._partitions else "--all"
        return f"sinfo --Node --noheader {shlex.quote(where)} --Format='{slurm_nodes.FORMAT}'"

    def _is_among_ours(self, partitions: str) -> bool:
        return not self._partitions or not set(self._partitions).isdisjoint(partitions.split(","))

    def _submit_new(self, orders: Sequence[PilotOrder]) -> Iterator[SubmitResult]:
        if not orders:
            return
        life = ("--max-idle-s", str(self._options.max_idle_s), *words_of_node(self._options.node_processors))
        script = partial(
            pilot_script, server_url=self._server_url, secret_file=SECRET_FILE, more=life, proxy=self._options.proxy
        )
        files = {
            f"{order.stamp}/{name}": content
            for order in orders
            for name, content in (("pilot.sh", script(order)), (SECRET_FILE, f"{order.secret}\n"))
        }
        # Its real path: a link of the host may not exist on the nodes.
        directory = self._ask_host(str, do="write", directory=self._directory, files=files)
        lines = (
            shlex.join(["submit", order.stamp, *self._sbatch(order, f"{directory}/{order.stamp}")]) for order in orders
        )
        try:
            answer = self._shell(_SUBMIT_ALL + "\n".join(lines), timeout_s=TIMEOUT_S + _SBATCH_S * len(orders))
        except CommandLostError:
            answer = ""
        # NB: not splitlines, which splits at more characters than the shell does.
        outputs = {stamp: rest for stamp, _, rest in (line.partition(" ") for line in answer.split("\n"))}
        for stamp in (order.stamp for order in orders):
            yield _submission_of(stamp, outputs[stamp]) if stamp in outputs else SubmitResult(stamp=stamp)

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
            "--export=NONE",  # the nodes have their own environment
            # To the shell, which is the agent by then, and not to the payloads.
            f"--signal=B:TERM@{NOTICE_S}",
            "--no-requeue",  # the secret is single-use
            f"{directory}/pilot.sh",
        ]

    def _present(self) -> Iterator[tuple[str, BatchState]]:
        """Return the states of all pilots of this user that live or ended minutes ago."""
        squeue = ["squeue", "--all", "--me", "--noheader", "--states=all"]
        answer = self._commands.run([*squeue, "--Format=JobID:|,State:|,exit_code:|,Name:|,Reason:|"])
        return map(_stamp_and_state, _PRESENT.finditer(answer))

    def _past(self, stamps: Collection[str]) -> Iterator[tuple[str, BatchState]]:
        """Return the states of jobs that Slurm no longer has: from its database, or its completion file."""
        options = (
            f"--noheader --parsable2 --starttime=now-{_ACCOUNTING_DAYS}days --format=JobIDRaw,State,ExitCode,JobName"
        )
        lines = (
            # The file is listed as a whole, for any names.
            f"sacct --allocations {options} --name={names} 2>/dev/null"
            f" || sacct --completion {options} 2>/dev/null | grep -F '|{_PREFIX}' || :"
            for names in _names(stamps)
        )
        return map(_stamp_and_state, _PAST.finditer(self._shell("\n".join(lines))))

    def _shell(self, script: str, *, timeout_s: float = TIMEOUT_S) -> str:
        return self._commands.run(["sh", "-s"], stdin=script, timeout_s=timeout_s)

    def _ask_host(self, answers: type[T], **request: object) -> T:
        return ask_host(self._commands, request, answers, python=self._options.python)


def _names(stamps: Iterable[str]) -> Iterator[str]:
    """Yield the job names with commas, quoted for the shell, in portions for one command line."""
    names = [f"{_PREFIX}{stamp}" for stamp in stamps]
    for start in range(0, len(names), _NAMES_AT_ONCE):
        yield shlex.quote(",".join(names[start : start + _NAMES_AT_ONCE]))


def _stamp_and_state(line: re.Match[str]) -> tuple[str, BatchState]:
    """Return the stamp and the state of a pilot from a line of Slurm's output."""
    state, why = line["state"], line.groupdict().get("why", "None")
    presence = _PRESENCE.get(state, Presence.UNKNOWN)
    words = ("" if state in {"PENDING", "RUNNING"} else state, "" if why == "None" else why)
    return line["stamp"], BatchState(
        presence=presence,
        batch_id=line["batch_id"],
        exit_code=_exit_code(line["code"], state=state) if presence is Presence.ENDED else None,
        reason=": ".join(filter(None, words)),
        by_system=state in _BY_SLURM,
    )


def _exit_code(code: str, *, state: str) -> int | None:
    """Return the exit code of an ended job, negative for a signal; None: not known.

    Args:
        code: in the form of ``wait``, or as exit code, colon and signal.
        state: the state in which the job ended.
    """
    match = _EXIT_CODE.fullmatch(code)
    if match is None:
        return None
    exited, signalled = match.groups()
    try:
        number = os.waitstatus_to_exitcode(int(exited)) if signalled is None else -int(signalled) or int(exited)
    except (ValueError, OverflowError):
        return None
    # Of a job that Slurm ended, before or after its start, 0 has no meaning.
    return number if number or state == "COMPLETED" else None


def _submission_of(stamp: str, result: str) -> SubmitResult:
    """Return the result of one sbatch from its exit code and its output, with a tab for each end of a line."""
    code, _, output = result.partition(" ")
    if code == "0":
        # Warnings may come first, and messages of a site's own wrapper last.
        job_ids = _JOB_ID.findall(output)
        return SubmitResult(stamp=stamp, batch_id=job_ids[-1] if job_ids else "")
    if not _CODE.fullmatch(code) or code in _BY_SIGNAL or _LOST.search(output):
        return SubmitResult(stamp=stamp)
    sentences = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in output.split("\t"))
    return SubmitResult(stamp=stamp, error=f"Slurm refused it: {'; '.join(filter(None, sentences))[-_SHOWN:]}.")
